#!/usr/bin/python3
"""A reader and a writer of lx streams, written from lx-stream(5) alone; the tests use it as an independent peer.

    lxpeer.py check <A.lx    exit as the page says, the reason on stderr
    lxpeer.py dump  <A.lx    the canonical form of what was read, then as check
    lxpeer.py make [raw|checked|zstd] [hints] <LINES >A.lx
        A line is a record as in the canonical form, or a mark: {"begin":{...}}, {"end":{...}}, {"hint":{...}},
        {"abort":{...}}; {"flush":0} closes a frame. What begin and end lack is filled in, a chain of domains can be
        given as an array of names. `hints` puts a hint before every frame.

Of msgpack it knows what python3-msgpack does: float32 is printed as the double that it equals, and a damaged timestamp
(ext -1) is refused.
"""
import re, sys
import msgpack, zstandard
from lxjson import Ext, Map, Str, dump, load

LIMITS = {'record': 256 << 20, 'frame': 1 << 30, 'depth': 32, 'id': 16, 'fields': 4096}
MARKS = ['begin', 'end', 'abort', 'hint']

class Bad(Exception):
    """The stream is refused; args: reason, exit status."""

def need(ok, why, code=3):
    if not ok:
        raise Bad(why, code)

# ---- values ----

def text(v):
    """A str with surrogates, which stand for bytes that are not UTF-8, as Str; containers likewise."""
    if type(v) is str:
        return v if v.isascii() or not re.search('[\udc80-\udcff]', v) else Str(v.encode('utf-8', 'surrogateescape'))
    if type(v) is msgpack.Timestamp:
        return Ext(-1, v.to_bytes())
    if type(v) is Map:
        return Map((text(k), text(x)) for k, x in v)
    return list(map(text, v)) if type(v) is list else v

def deeper(v, limit):
    inside = [x for pair in v for x in pair] if type(v) is Map else v
    return isinstance(v, list) and (limit == 0 or any(deeper(x, limit - 1) for x in inside))

def values(b):
    """The values in b and where each ends."""
    u = msgpack.Unpacker(raw=False, strict_map_key=False, unicode_errors='surrogateescape', object_pairs_hook=Map,
                         ext_hook=Ext, max_buffer_size=len(b) or 1)
    u.feed(b)
    end = 0
    try:
        for v in u:
            end = u.tell()
            need(not deeper(v, LIMITS['depth']), 'nesting over the limit')
            yield text(v), end
    except ValueError as e:
        raise Bad('msgpack: %r' % e, 3)
    need(end == len(b), 'ends inside a value')

def pack(v):
    other = lambda v: dict(v) if type(v) is Map else msgpack.ExtType(*v) if type(v) is Ext else v.decode('utf-8', 'surrogateescape')
    return msgpack.packb(v, strict_types=True, default=other, unicode_errors='surrogateescape')

# ---- reading ----

def uint(below=2**64): return lambda v: type(v) is int and 0 <= v < below
def array(of, most=2**32, least=0): return lambda v: type(v) is list and least <= len(v) <= most and all(map(of, v))
def is_map(v): return type(v) is Map
def is_str(v): return type(v) in (str, Str)
def is_bool(v): return type(v) is bool

def keys(m, **want):
    """Check the known keys of a map; a name that ends in _ is optional."""
    need(is_map(m), 'no map')
    for name, ok in want.items():
        v = m.get(name.rstrip('_'), keys)
        need(name[-1] == '_' if v is keys else ok(v), 'key ' + name)

class Segment:
    def __init__(self, m):
        keys(m, features_=uint())
        need(not m.get('features'), 'a feature that is not known', 4)
        names = array(is_str, 4096)
        keys(m, run=lambda v: is_str(v) and re.fullmatch('[!-~]{1,128}', v), packing=lambda v: v in ('raw', 'checked', 'zstd'),
             limits=is_map, domains=array(is_map, 64, 1), ops=array(is_map, 4096), part_=uint(1 << 20), slots_=uint(), beats_=uint())
        keys(m.get('limits'), **{k: uint(most + 1) for k, most in LIMITS.items()})
        self.run, self.part, self.tree, self.depth = m.get('run'), m.get('part'), [], []
        for d in m.get('domains'):
            self.domain(d)
        for op in m.get('ops'):
            keys(op, tool=is_str, host_=is_str, domain=uint(len(self.tree)), reads_=names, writes_=names, drops_=names)
        self.counts = [[0] * 5 for _ in self.tree]

    def domain(self, d):
        i, taken, t = len(self.tree), [x[0] for x in self.tree], d.get('tolerance', Map([('n', 0)]))
        keys(d, name=lambda v: is_str(v) and re.fullmatch('[A-Za-z_][A-Za-z0-9_-]{0,63}', v) and v not in taken,
             state=lambda v: v == 'open' or v == 'gathered' and i, tolerance_=is_map)
        parent = d.get('parent')
        need(uint(i)(parent) if i else parent is None, 'parent')
        need(uint()(t.get('n')) != uint(10001)(t.get('percent')), 'tolerance')
        self.depth.append(self.depth[parent] + 1 if i else 1)
        need(self.depth[i] <= 16, 'a domain too deep')
        self.tree.append((d.get('name'), parent, d.get('state'), t))

    def is_id(self, v, n): return array(uint(2**64 - 1), n, n)(v)
    def is_item(self, v):
        return type(v) is list and len(v) == 2 and uint(len(self.tree))(v[0]) and self.is_id(v[1], self.depth[v[0]])

    def record(self, r):
        """Check a record: its domain, its column in the counts, whether its cause is wide."""
        need(array(lambda v: True, 7, 4)(r) and uint(4)(r[0]) and r[0], 'no record of a known kind')
        kind, d = r[:2]
        need(uint(len(self.tree))(d) and self.tree[d][2] == 'open' and len(r) == (0, 4 + (not d), 6 + (not d), 6)[kind], 'domain or number of elements')
        need(self.is_id(r[2], self.depth[d] - (kind == 3)) and 1 <= len(r[2]) <= LIMITS['id'], 'id')
        outcome, cause, fields = ((0, None, r[3]), r[3:6], (*r[4:6], Map()))[kind - 1] if kind > 1 else (0, None, r[3])
        need(uint(4)(outcome) and outcome in ((0,), (1, 2, 3), (0, 2, 3))[kind - 1], 'outcome')
        need(kind != 3 or uint(2**64 - 1)(r[3]), 'count')
        need(cause is not None if outcome > 1 else cause is None or outcome == 1, 'cause')
        if cause is not None:
            keys(cause, type=is_str, message=is_str, anchor=self.is_item, origin=self.is_item, stage_=is_str, host_=is_str,
                 attempt_=uint(), elapsed_=uint())
        need(is_map(fields) and len(fields) <= LIMITS['fields'] and all(is_str(k) for k, _ in fields) or
             kind == 2 and fields is None, 'fields')
        return d, 4 if kind == 3 else outcome, cause is not None and cause.get('anchor') != cause.get('origin')

    def content(self, b):
        """The records of a frame's content, and the hint that tells the truth about it."""
        need(b, 'empty frame')
        found, records, wide, at = {}, [], False, 0
        for r, end in values(b):
            need(end - at <= LIMITS['record'], 'a record over the limit')
            at = end
            d, column, w = self.record(r)
            found.setdefault(d, [d, 0, 0, 0, 0, 0])[column + 1] += 1
            self.counts[d][column] += 1
            wide |= w
            records.append(r)
        return records, Map([('counts', sorted(found.values())), ('wide', wide)])

def frame_end(b, at):
    """Where the data frame at b[at:] ends, found without decoding it."""
    need(at + 6 <= len(b), 'truncated')
    flags, w = b[at + 4], b[at + 5]
    window = (8 + (w & 7)) << (7 + (w >> 3))
    need(not flags & 0x2b and window <= 8 << 20, 'single segment, reserved bit, dictionary or window')
    at += 6 + (0, 2, 4, 8)[flags >> 6]
    last = known = 0
    while not last:
        need(at + 3 <= len(b), 'truncated')
        head = int.from_bytes(b[at:at + 3], 'little')
        last, kind, size = head & 1, head >> 1 & 3, head >> 3
        known += size if kind < 2 else 0
        need(kind != 3 and size <= min(window, 128 << 10) and known <= LIMITS['frame'], 'block')
        at += 3 + (1 if kind == 1 else size)
    at += flags & 4
    need(at <= len(b), 'truncated')
    return at

def open_frame(b):
    try:
        content = zstandard.ZstdDecompressor().decompressobj().decompress(b)
    except zstandard.ZstdError as e:
        raise Bad(str(e), 3)
    need(len(content) <= LIMITS['frame'], 'a frame over the limit')
    return content

def open_mark(b, at):
    """Name and map of the mark at b[at:], and where it ends."""
    magic, size = (int.from_bytes(b[i:i + 4], 'little') for i in (at, at + 4))
    need(at + 8 <= len(b) and magic >> 4 == 0x184D2A5 and 1 <= magic & 15 <= 4, 'neither frame nor mark, or cut')
    need(size <= 16 << 20 and at + 8 + size <= len(b), 'a mark that is cut or over 16 MiB')
    body = b[at + 8:at + 8 + size]
    need(body[:2] == b'lx' and size > 2, 'a mark that is not ours')
    need(body[2] == 1, 'version', 4)
    maps = [m for m, _ in values(body[3:])]
    need(len(maps) == 1 and is_map(maps[0]), 'not one map')
    return MARKS[(magic & 15) - 1], maps[0], at + 8 + size

class Reader:
    def __init__(self):
        self.records, self.runs, self.seg = [], {}, None  # pairs of run and record; run id -> [tree, parts read, total]

    def begin(self, m):
        need(self.seg is None, 'a begin mark inside a segment')
        seg = self.seg = Segment(m)
        if seg.run not in self.runs:
            self.finish()
            self.runs[seg.run] = self.run = [seg.tree, None if seg.part is None else set(), None]
        need(self.runs[seg.run] is self.run, 'a run that comes back', 2)
        need(self.run[0] == seg.tree and (self.run[1] is None) == (seg.part is None), 'segments that do not agree', 2)
        seg.again = seg.part is not None and seg.part in self.run[1]
        if seg.part is not None:
            self.run[1].add(seg.part)

    def end(self, m):
        seg, total = self.seg, m.get('parts')
        keys(m, counts=array(array(uint(), 5, 5), len(seg.tree), len(seg.tree)), parts_=uint())
        need(seg.again or m.get('counts') == seg.counts, 'counts of the end mark')
        need(total is None or seg.part is not None and total == seg.part + 1, 'number of parts')
        self.run[2] = total or self.run[2]
        self.seg = None

    def finish(self):
        need(not self.runs or self.run[1] is None or self.run[1] == set(range(self.run[2] or 0)), 'parts missing or too many')

    def hint(self, m):
        keys(m, counts_=array(array(uint(), 6, 6)), wide_=is_bool, bars_=array(self.seg.is_item))
        return m if m.get('counts') is not None else None

    def abort(self, m):
        keys(m, code=lambda v: uint(8)(v) and v > 1, stage=is_str, message=is_str)
        raise Bad('%s: %s' % (m.get('stage'), m.get('message')), m.get('code'))

    def frame(self, b, hint):
        need(self.seg, 'a frame outside a segment')
        if not self.seg.again:
            records, truth = self.seg.content(open_frame(b))
            need(hint is None or hint.get('counts') == truth.get('counts') and hint.get('wide', False) >= truth.get('wide'), 'a hint that lies')
            self.records += [(len(self.runs), r) for r in records]

    def read(self, b):
        at, hint = 0, None
        while at < len(b):
            if b[at:at + 4] == b'\x28\xb5\x2f\xfd':
                start, at = at, frame_end(b, at)
                hint = self.frame(b[start:at], hint)
                continue
            name, m, at = open_mark(b, at)
            need(hint is None, 'a hint that no frame follows')
            need(self.seg or name in ('begin', 'abort'), 'a mark outside a segment')
            hint = getattr(self, name)(m)
        need(self.runs and self.seg is None, 'truncated')
        self.finish()

def canonical(records):
    lines = []
    for run, r in records:
        at = {2: 4, 3: 5}.get(r[0])
        if at and r[at]:
            r = r[:at] + [Map(p for p in r[at] if p[0] not in ('host', 'attempt', 'elapsed'))] + r[at + 1:]
        lines.append((run, r[1], r[2], r[0], dump(r).encode() + b'\n'))
    return [line[-1] for line in sorted(lines)]

# ---- writing ----

def mark(name, m, version=1):
    """m: a map, or bytes that are taken as they are."""
    body = b'lx' + bytes([version]) + (m if type(m) is bytes else pack(m))
    return (0x184D2A51 + MARKS.index(name)).to_bytes(4, 'little') + len(body).to_bytes(4, 'little') + body

def frame(content, packing='raw'):
    if packing == 'zstd':
        c = zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=False).compressobj()
        return c.compress(content) + c.flush()
    out = b'\x28\xb5\x2f\xfd' + (b'\x04' if packing == 'checked' else b'\0') + b'\x38'
    for i in range(0, len(content) or 1, 128 << 10):
        block = content[i:i + (128 << 10)]
        out += (len(block) << 3 | (i + (128 << 10) >= len(content))).to_bytes(3, 'little') + block
    return out + (zstandard.ZstdCompressor(write_checksum=True).compress(content)[-4:] if packing == 'checked' else b'')

class Writer:
    def __init__(self, packing='raw', hints=False):
        self.out, self.packing, self.hints, self.content, self.seg = b'', packing, hints, bytearray(), None

    def begin(self, m=()):
        tree = [d if is_map(d) else Map([('name', d), ('parent', i - 1 if i else None), ('state', 'open')])
                for i, d in enumerate(dict(m).get('domains', ['doc']))]
        m = {'run': 'peer', 'packing': self.packing, 'limits': Map(LIMITS.items()), 'ops': [], **dict(m), 'domains': tree}
        self.seg = Segment(Map(m.items()))
        self.out += mark('begin', Map(m.items()))

    def record(self, r):
        """r: a record, or bytes that are taken as they are."""
        if not self.seg:
            self.begin()
        self.content += r if type(r) is bytes else pack(r)

    def flush(self, _=None):
        if self.content:
            content = bytes(self.content)
            truth = self.seg.content(content)[1]
            self.out += (mark('hint', truth) if self.hints else b'') + frame(content, self.packing)
            self.content = bytearray() # appending to bytes would copy them all each time

    def end(self, m=()):
        if not self.seg:
            self.begin()
        self.flush()
        self.out += mark('end', Map({'counts': self.seg.counts, **dict(m)}.items()))
        self.seg = None

    def line(self, v):
        [(name, m)] = v if is_map(v) else [('record', v)]
        if name in ('hint', 'abort'):
            self.flush()
            self.out += mark(name, m)
        else:
            getattr(self, name)(m)

    def finish(self):
        if self.seg or not self.out:
            self.end()
        return self.out

def main(verb, *args):
    if verb == 'make':
        w = Writer(*[a for a in args if a != 'hints'], hints='hints' in args)
        for line in sys.stdin.buffer:
            w.line(load(line))
        sys.stdout.buffer.write(w.finish())
        return 0
    reader, code = Reader(), 0
    try:
        reader.read(sys.stdin.buffer.read())
    except Bad as e:
        code = e.args[1]
        print('lxpeer: %s' % e.args[0], file=sys.stderr)
    sys.stdout.buffer.writelines(canonical(reader.records) if verb == 'dump' else [])
    return code

if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in ('check', 'dump', 'make'):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
