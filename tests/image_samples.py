#!/usr/bin/python3
"""PNG and netpbm images of every kind of sample, and the pixels they have, by plain arithmetic.

    image_samples.py DIR    writes images of 13 x 11 pixels to DIR and prints a line of JSON for each: name and, in base64,
                            pixels: all of red, all of green, all of blue

A sample of another maximum than 255 becomes v * 255 / maximum, rounded; what has alpha lies on white in those samples.
Where Pillow reads the same kind of image, it has to agree.
"""
import base64, json, random, struct, sys, zlib
from PIL import Image

W, H = 13, 11
r = random.Random(5)
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PASSES = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))


def packed(samples, depth):
    if depth == 16:
        return struct.pack(f'>{len(samples)}H', *samples)
    bits = ''.join(f'{s:0{depth}b}' for s in samples)
    bits += '0' * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(kind, depth, interlaced, pixels, chunks):
    rows = b''
    for x0, y0, dx, dy in PASSES if interlaced else [(0, 0, 1, 1)]:
        for y in range(y0, H, dy):
            line = [s for x in range(x0, W, dx) for s in pixels[y * W + x]]
            rows += b'\0' + packed(line, depth) if line else b''
    head = struct.pack('>IIBBBBB', W, H, depth, kind, 0, 0, interlaced)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + b''.join(chunk(*c) for c in chunks) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


def eight(v, most):
    return (v * 255 + most // 2) // most


def over_white(v, alpha):
    return (v * alpha + 255 * (255 - alpha) + 127) // 255


def seen(kind, depth, pixel, palette, key):
    """Red, green and blue of a pixel."""
    most = (1 << depth) - 1
    if kind == 3:
        *colour, alpha = palette[pixel[0]]
    else:
        colour = [eight(v, most) for v in (pixel[:3] if kind & 2 else pixel[:1] * 3)]
        alpha = eight(pixel[-1], most) if kind & 4 else 0 if pixel == key else 255
    return tuple(over_white(v, alpha) for v in colour)


def tell(name, data, rgb, check=False):
    with open(f'{where}/{name}', 'wb') as f:
        f.write(data)
    if check:
        im = Image.open(f'{where}/{name}').convert('RGBA')
        flat = Image.new('RGB', im.size, 'white')
        flat.paste(im, mask=im.getchannel('A'))
        assert list(flat.getdata()) == rgb, name
    planes = bytes(p[c] for c in range(3) for p in rgb)
    print(json.dumps({'name': f'{where}/{name}', 'pixels': base64.b64encode(planes).decode()}))


def one_png(kind, depth, interlaced, keyed, gamma):
    most = (1 << depth) - 1
    pixels = [tuple(r.randint(0, most) for _ in range(SAMPLES[kind])) for _ in range(W * H)]
    for i, v in enumerate((0, most, 1, most // 2, most // 2 + 1)):
        pixels[i] = (v,) * SAMPLES[kind]
    key, chunks, palette = None, [], []
    if gamma:
        chunks.append((b'gAMA', struct.pack('>I', gamma)))
    if kind == 3:
        palette = [tuple(r.randbytes(3)) + (255,) for _ in range(most + 1)]
        chunks.append((b'PLTE', b''.join(bytes(p[:3]) for p in palette)))
    if keyed and kind == 3:
        palette[:most] = [p[:3] + (r.randint(0, 255),) for p in palette[:most]] # the last has none, which is 255
        chunks.append((b'tRNS', bytes(p[3] for p in palette[:most])))
    elif keyed:
        key = pixels[7]
        pixels[20] = pixels[33] = key
        chunks.append((b'tRNS', struct.pack(f'>{len(key)}H', *key)))
    name = f'{kind}-{depth}' + ('-interlaced' if interlaced else '') + ('-key' if keyed else '') + (f'-gamma{gamma}' if gamma else '') + '.png'
    # of grey with a key Pillow compares samples of less than 8 bits after it has scaled them
    usual = depth < 16 and not (keyed and depth < 8 and kind == 0)
    tell(name, png(kind, depth, interlaced, pixels, chunks), [seen(kind, depth, p, palette, key) for p in pixels], usual)


def one_netpbm(magic, most):
    wide, n = most > 255, 3 if magic in 'P3P6' else 1
    samples = [r.randint(0, most) for _ in range(W * H * n)]
    samples[:4] = 0, most, most // 2, most // 2 + 1
    raster = ' '.join(map(str, samples)).encode() if magic in 'P2P3' else struct.pack(f'>{len(samples)}{"H" if wide else "B"}', *samples)
    rgb = [tuple(eight(v, most) for v in (samples[i:i + n] * (3 // n))) for i in range(0, len(samples), n)]
    tell(f'{magic}-{most}.pnm', f'{magic}\n{W} {H}\n{most}\n'.encode() + raster, rgb)


where = sys.argv[1]
for kind, depths in DEPTHS.items():
    for depth in depths:
        for interlaced in (0, 1):
            for keyed in (0, 1) if kind < 4 else (0,):
                for gamma in (0, 100000, 45455):
                    one_png(kind, depth, interlaced, keyed, gamma)
for magic in ('P2', 'P3', 'P5', 'P6'):
    for most in (1, 15, 100, 254, 255, 256, 1023, 65535):
        one_netpbm(magic, most)
