#!/usr/bin/env python3
"""minhash and simhash as lx-gpu(1) defines them, in plain Python.

    text_reference.py make DIR            texts of all kinds, and a file `list` of their names
    text_reference.py answers FILE...     a line of JSON each: name, and the answers or what is wrong with it
    text_reference.py pairs N             N pairs of texts, JSON lines: text and the pair's true similarity of 3-word shingles
"""
import json
import os
import random
import re
import sys

M64 = (1 << 64) - 1
M32 = (1 << 32) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(x):
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & M64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & M64
    return x ^ x >> 33


def splitmix(p):
    z = (p + 1) * GOLDEN & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def word_hash(word):
    h = 0
    for at in range(0, len(word), 8):
        h = mix((h + GOLDEN & M64) ^ int.from_bytes(word[at:at + 8], 'little'))
    return h + len(word) & M64


def words_of(text):
    return re.findall(rb'[^ \t\n\v\f\r]+', text)


def shingles(text, size):
    words = [word_hash(w) for w in words_of(text)]
    if not words:
        return []
    out = []
    for i in range(max(1, len(words) - size + 1)):
        h = 0
        for w in words[i:i + size]:
            h = (h * GOLDEN + w) & M64
        out.append(mix(h))
    return out


def minhash(text, perms, size):
    xs = {s >> 32 for s in shingles(text, size)}
    out = []
    for p in range(perms):
        r = splitmix(p)
        a, b = r >> 32 | 1, r & M32
        out.append(min(((a * x + b) & M32 for x in xs), default=M32))
    return out


def bands(signature, n):
    rows = len(signature) // n
    out = []
    for b in range(n):
        h = b
        for v in signature[b * rows:(b + 1) * rows]:
            h = mix((h + GOLDEN & M64) ^ v)
        out.append(h >> 11)
    return out


def simhash(text, size):
    all_of = shingles(text, size)
    return sum(1 << bit for bit in range(64) if 2 * sum(s >> bit & 1 for s in all_of) > len(all_of))


def make(folder):
    r = random.Random(4)
    vocabulary = [''.join(r.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(r.randint(1, 12))) for _ in range(900)]
    texts = {
        'empty': b'', 'white': b' \t\r\n\v\f ', 'one': b'word', 'two': b'two words', 'nul': b'a\0b \0 \0\0 c', 'eight': b'12345678 123456789 1234567',
        'edges': b'  lead and trail \n', 'same': b'x ' * 1000, 'long-word': b'y' * 100000, 'german': 'Größe und Maß, übrigens'.encode(),
        'spaces': 'no\u00a0break\u2003em\u3000wide'.encode(), 'emoji': 'ok \U0001f600 fine'.encode(), 'last': '\U0010ffff \ud7ff \ue000'.encode(),
        'case': b'Case case CASE', 'many': b'a ' * 70000, 'huge-word': b'z' * 1000003 + b' ' + b'z' * 1000003,
        'bad-lone': b'ok \x80 no', 'bad-cut': b'ok \xe2\x82', 'bad-long': b'\xc0\xaf', 'bad-surrogate': b'\xed\xa0\x80', 'bad-high': b'\xf4\x90\x80\x80',
        'bad-three': b'\xe0\x9f\xbf', 'bad-four': b'\xf0\x8f\xbf\xbf', 'bad-f5': b'\xf5\x80\x80\x80', 'bad-more': 'ü'.encode() + b'\x80',
        'bad-latin': 'Größe'.encode('latin-1'), 'bad-five': b'\xf0\x9f\x98\x80\x80',
    }
    for i in range(60):
        n = r.choice([1, 3, 5, 6, 40, 700])
        texts[f'text{i}'] = ' '.join(r.choice(vocabulary) for _ in range(n)).encode()
    for i in range(60):
        b = bytearray(r.choice(['Grüße aus €uropa \U0001f600 '.encode() * 3, b'plain text here']))
        b[r.randrange(len(b))] = r.randrange(256)
        texts[f'changed{i}'] = bytes(b)
    with open(os.path.join(folder, 'list'), 'w') as names:
        for name, text in texts.items():
            with open(os.path.join(folder, name), 'wb') as f:
                f.write(text)
            names.write(name + '\n')


def answers(files):
    for name in files:
        with open(name, 'rb') as f:
            text = f.read()
        try:
            text.decode()
        except UnicodeDecodeError:
            print(json.dumps({'name': name, 'bad': True}))
            continue
        signature = minhash(text, 24, 3)
        print(json.dumps({'name': name, 'odd': minhash(text, 7, 1), 'signature': signature, 'bands': bands(signature, 8),
                          'simhash': simhash(text, 1), 'simhash2': simhash(text, 2)}))


def pairs(n):
    r = random.Random(11)
    for i in range(n):
        share = r.random()
        a = [f'w{r.randrange(1 << 30)}' for _ in range(400)]
        cut = int(400 * share)
        b = a[:cut] + [f'w{r.randrange(1 << 30)}' for _ in range(400 - cut)]
        sets = [{tuple(t[k:k + 3]) for k in range(len(t) - 2)} for t in (a, b)]
        true = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        for t in (a, b):
            print(json.dumps({'data': ' '.join(t), 'pair': i, 'true': true}))


if __name__ == '__main__':
    if sys.argv[1] == 'make':
        make(sys.argv[2])
    elif sys.argv[1] == 'pairs':
        pairs(int(sys.argv[2]))
    else:
        answers(sys.argv[2:])
