#!/usr/bin/python3
"""What lx-gpu computes, by Pillow and plain arithmetic, and images to compute it of.

    image_reference.py make DIR        images of every kind, and DIR/list with their names
    image_reference.py tensor WxH FIT TYPE NUMBERS FILE...
                                       a line of JSON a file: name, shape and, in base64, data; FIT: fill or letterbox,
                                       NUMBERS: three means and three deviations with commas between
    image_reference.py answers FILE... a line of JSON a file: name, dhash, phash, sharpness, ink, luma

dhash and phash follow their usual definitions (Lanczos to 9 x 8 and neighbours compared; Lanczos to 32 x 32, a DCT, the
lowest 8 x 8 against their median), on Pillow's own resampling.
"""
import base64, json, math, random, struct, sys
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo


def make(where):
    r, names = random.Random(3), []

    def save(name, im, **how):
        im.save(f'{where}/{name}', **how)
        names.append(name)

    def noise(mode, w, h):
        n = {'L': 1, 'LA': 2, 'RGB': 3, 'RGBA': 4}[mode]
        return Image.frombytes(mode, (w, h), r.randbytes(w * h * n))

    def page(mode, w, h):
        im = Image.new(mode, (w, h), 'white')
        d = ImageDraw.Draw(im)
        for i in range(40):
            x, y = r.randrange(w), r.randrange(h)
            d.rectangle([x, y, x + r.randrange(1, w // 2 + 2), y + r.randrange(1, 5)], fill=r.choice(['black', 'gray', 'red', 'navy']))
        return im

    for w, h in [(1, 1), (2, 1), (1, 3), (8, 8), (9, 8), (32, 32), (33, 31), (5, 200), (300, 7), (640, 480), (1275, 1650)]:
        save(f'grey-{w}x{h}.png', noise('L', w, h))
        save(f'page-{w}x{h}.png', page('RGB', w, h))
        save(f'page-{w}x{h}.jpg', page('RGB', w, h), quality=90)
    save('grey.jpg', page('L', 200, 300), quality=75)
    save('progressive.jpg', page('RGB', 123, 77), progressive=True, subsampling='4:2:0')
    gamma = PngInfo()
    gamma.add(b'gAMA', struct.pack('>I', 100000))
    save('gamma.png', page('L', 120, 80), pnginfo=gamma)
    save('alpha.png', noise('RGBA', 40, 33))
    save('grey-alpha.png', noise('LA', 40, 33))
    save('palette.png', page('RGB', 90, 60).quantize(16))
    save('bits.png', page('L', 77, 50).convert('1'))
    save('interlaced.png', page('RGB', 65, 43))
    save('grey.pgm', noise('L', 31, 17))
    save('colour.ppm', noise('RGB', 31, 17))
    save('bits.pbm', page('L', 61, 33).convert('1'))
    open(f'{where}/plain.pgm', 'w').write('P2\n# a comment\n3 2\n15\n0 1 2\n# more\n13 14 15\n')
    open(f'{where}/plain.ppm', 'w').write('P3 2 2 255 ' + ' '.join(str(i * 20) for i in range(12)) + '\n')
    names += ['plain.pgm', 'plain.ppm']
    open(f'{where}/list', 'w').write(''.join(f'{where}/{n}\n' for n in names))


def bits(values):
    n = 0
    for v in values:
        n = n << 1 | bool(v)
    return n


def dhash(im):
    p = list(im.resize((9, 8), Image.LANCZOS).getdata())
    return bits(p[9 * y + x + 1] > p[9 * y + x] for y in range(8) for x in range(8))


def phash(im):
    p = list(im.resize((32, 32), Image.LANCZOS).getdata())
    c = [[math.cos(math.pi * u * (2 * x + 1) / 64) for x in range(32)] for u in range(8)]
    half = [[math.fsum(p[32 * y + x] * c[u][y] for y in range(32)) for x in range(32)] for u in range(8)]
    low = [math.fsum(half[u][x] * c[v][x] for x in range(32)) for u in range(8) for v in range(8)]
    s = sorted(low)
    median = (s[31] + s[32]) / 2
    # what is this close to the median is rounding, not image
    return bits(v > median for v in low), any(abs(v - median) < 1e-3 for v in low)


def opened(path):
    """An image in colour or in grey, on white."""
    im = Image.open(path)
    if im.mode not in ('LA', 'RGBA'):
        return im.convert('RGB')
    flat = Image.new('RGB', im.size, 'white')
    flat.paste(im.convert('RGB'), mask=im.getchannel('A'))
    return flat


def answers(path):
    im = opened(path).convert('L')
    w, h = im.size
    p = list(im.getdata())

    def mirror(v, n):
        return 0 if n == 1 else -v if v < 0 else 2 * n - 2 - v if v >= n else v

    s = q = 0
    for y in range(h):
        up, down = mirror(y - 1, h) * w, mirror(y + 1, h) * w
        for x in range(w):
            v = p[up + x] + p[down + x] + p[y * w + mirror(x - 1, w)] + p[y * w + mirror(x + 1, w)] - 4 * p[y * w + x]
            s += v
            q += v * v
    n = w * h
    hist = im.histogram()
    ph, near = phash(im)
    return {'name': path, 'dhash': dhash(im), 'phash': ph, 'near': near, 'sharpness': (n * q - s * s) / (n * n),
            'ink': sum(hist[:128]) / n, 'luma': [sum(hist[i:i + 16]) for i in range(0, 256, 16)]}


def placed(im, w, h):
    """The image in the middle of a black one, as large as it can be."""
    iw, ih = im.size
    if iw * h > ih * w:
        nw, nh = w, max(1, (2 * ih * w + iw) // (2 * iw))
    else:
        nw, nh = max(1, (2 * iw * h + ih) // (2 * ih)), h
    to = Image.new('RGB', (w, h))
    to.paste(im.resize((nw, nh), Image.LANCZOS), ((w - nw) // 2, (h - nh) // 2))
    return to


def tensor(size, fit, kind, numbers, path):
    w, h = map(int, size.split('x'))
    v = list(map(float, numbers.split(',')))
    im = opened(path)
    im = placed(im, w, h) if fit == 'letterbox' else im.resize((w, h), Image.LANCZOS)
    code = {'f32': 'f', 'f16': 'e', 'u8': 'B'}[kind]
    data = b''
    for c, plane in enumerate(im.split()):
        number = [p if kind == 'u8' else (p / 255 - v[c]) / v[3 + c] for p in range(256)]
        data += struct.pack(f'<{w * h}{code}', *(number[p] for p in plane.getdata()))
    return {'name': path, 'shape': [3, h, w], 'data': base64.b64encode(data).decode()}


if sys.argv[1] == 'make':
    make(sys.argv[2])
elif sys.argv[1] == 'tensor':
    for f in sys.argv[6:]:
        print(json.dumps(tensor(*sys.argv[2:6], f)))
else:
    for f in sys.argv[2:]:
        print(json.dumps(answers(f)))
