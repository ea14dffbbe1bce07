#!/usr/bin/python3
"""make.py [DIRECTORY [SEEDS]]: write the corpus and its README.md (default: where this file lies), and single records
as seeds of tests/fuzz/fuzz_record.c (default: tests/fuzz/seeds/record).

Every stream here is made by a line of code that says what is in it. The streams are kept in the repository as well, so
that what an old build wrote is still read; tests/corpus.bats makes them again and compares.
"""
import hashlib, os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from lxpeer import LIMITS, frame, frame_end, mark, open_frame, open_mark, pack, values

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, FILES, SEEDS = [], {}, []

def case(name, code, what, stream, *options):
    """options: pairs of an option string and the exit status with it."""
    FILES[name + '.lx'] = stream
    ROWS.append((name + '.lx', code, '', what))
    ROWS.extend((name + '.lx', other, option, 'the same under this limit') for option, other in options)

def good(name, what, stream, *options): case('good-' + name, 0, what, stream, *options)
def bad(name, what, stream, code=3): case('bad-' + name, code, what, stream)
def unsupported(name, what, stream): case('unsupported-' + name, 4, what, stream)

# ---- building blocks ----

def domain(name, parent=None, state='open', **more): return {'name': name, 'parent': parent, 'state': state, **more}

DOC = [domain('doc')]
TREE = [domain('doc'), domain('page', 0)]
GONE = object()  # begin(key=GONE): without the key

def begin(domains=DOC, **change):
    m = {'run': 'corpus', 'packing': 'raw', 'limits': LIMITS, 'domains': domains, 'ops': [], **change}
    return mark('begin', {k: v for k, v in m.items() if v is not GONE})

def end(*counts, **more): return mark('end', {'counts': [list(c) for c in counts] or [[0] * 5], **more})

def item(*id, fields={}, key='k'): return pack([1, len(id) - 1, list(id), fields] + [key] * (len(id) == 1))
def gone(*id, outcome=2, cause=None, fields=None): return pack([2, len(id) - 1, list(id), outcome, cause, fields] + ['k'] * (len(id) == 1))
def close(parent, count, outcome=0, cause=None): return pack([3, len(parent), list(parent), count, outcome, cause])
def cause(*origin, anchor=None, **more):
    where = lambda id: [len(id) - 1, list(id)]
    return {'type': 'bad', 'message': 'why', 'anchor': where(anchor or origin), 'origin': where(origin), **more}

ONE = item(0)
COUNT1 = (1, 0, 0, 0, 0)
def docs(content, counts=COUNT1): return begin() + frame(content) + end(counts)
def in_doc(content): return seed(content) or begin() + frame(content) + end(COUNT1)           # refused before the end mark
def in_tree(content): return seed(content) or begin(TREE) + frame(content) + end(COUNT1, COUNT1)  # likewise
def seed(content): SEEDS.append(content)
def with_frame(f): return begin() + f + end(COUNT1)
def with_begin(**change): return begin(**change) + end(*[[0] * 5 for _ in change.get('domains', DOC)])
def head(magic, size): return struct.pack('<II', magic, size)
def raw_item(fields): return bytes.fromhex('95 01 00 91 00') + fields + pack('k')

def block(data, last=True, kind=0, size=None):
    return ((len(data) if size is None else size) << 3 | kind << 1 | last).to_bytes(3, 'little') + data
def zframe(*blocks, flags=0, window=0x38, tail=b''): return b'\x28\xb5\x2f\xfd' + bytes([flags, window]) + b''.join(blocks) + tail

# A zstd frame as libzstd 1.5.4 wrote it at level 1, kept as bytes so that no other version changes the corpus.
TEXT = item(0, fields={'data': 'the same words again, ' * 20})
ZSTD = bytes.fromhex('28b52ffd04487d01006402950100910081a464617461da01b87468652073616d6520776f72647320616761696e2c20a16b0100fc4c753e01393f0751')
assert open_frame(ZSTD) == TEXT

# ---- good ----

good('empty', 'an empty stream: begin and end', begin() + end())
good('one', 'one root item', docs(ONE))
good('outcomes', 'every kind of record with every outcome, children before their parents, all keys of a cause',
     begin(TREE) + frame(close([3], 0) + item(0, 1) + item(0, 0, fields={'data': b'\0'}) + gone(0, 2, outcome=1) +
                         gone(0, 3, cause=cause(0, 3, stage='lx-map', host='a', attempt=2, elapsed=70), fields={'a': 1}) +
                         gone(0, 4, outcome=3, cause=cause(0, 3, anchor=[0])) + close([0], 5) + item(0)) +
     frame(gone(1, outcome=1) + gone(2, cause=cause(2), fields={}) + gone(4, outcome=3, cause=cause(2)) + item(3) +
           close([5], 1, 2, cause(5)) + close([6], 0, 3, cause(6)) + gone(7, outcome=1, cause=cause(7, stage='lx-filter'))) +
     end((2, 2, 1, 1, 0), (2, 1, 1, 1, 4)))
good('domains', 'a tree of five domains, one gathered, with tolerances',
     begin([domain('doc'), domain('page', 0, tolerance={'percent': 250}), domain('_region-9', 1, tolerance={'n': 3}),
            domain('audio', 0), domain('frame', 0, 'gathered')],
           ops=[{'tool': 'lx-expand', 'host': 'a', 'domain': 1, 'reads': ['path'], 'writes': ['*'], 'drops': ['data']}]) +
     frame(item(0) + item(0, 7) + item(0, 7, 2**64 - 2) + pack([1, 3, [0, 0], {}]) + pack([3, 3, [0], 2**64 - 2, 0, None])) +
     end(COUNT1, COUNT1, COUNT1, (1, 0, 0, 0, 1), [0] * 5))
good('deep', '16 domains, each below the one before',
     begin([domain('d%d' % i, i - 1 if i else None) for i in range(16)]) + frame(item(*range(16))) + end(*[[0] * 5] * 15, COUNT1))
good('segments', 'two segments of one run', docs(ONE) + docs(item(1)))
good('runs', 'two runs, the second empty', docs(ONE) + begin(run='other') + end())

def part(n, content, **more): return begin(part=n) + frame(content) + end(COUNT1, **more)
good('parts', 'a run in three parts', part(0, ONE) + part(1, item(1)) + part(2, item(2), parts=3))
good('parts-shuffled', 'the last part first', part(2, item(2), parts=3) + part(0, ONE) + part(1, item(1)))
good('parts-repeated', 'part 1 comes again with other records, which do not count',
     part(0, ONE) + part(1, item(1)) + part(1, item(8)) + part(2, item(2), parts=3) + part(2, item(9), parts=3))

good('checked', 'a frame with a checksum', with_frame(frame(ONE, 'checked')))
good('zstd', 'a compressed frame', with_frame(ZSTD))
good('mixed', 'frames of all packings in one segment, whatever the begin mark says',
     begin(packing='checked') + frame(item(1)) + ZSTD + frame(item(2), 'checked') + end((3, 0, 0, 0, 0)))
good('blocks', 'a record over several blocks, one of them empty',
     with_frame(zframe(block(ONE[:1], False), block(ONE[1:4], False), block(b'', False), block(ONE[4:]))))
good('content-size', 'a frame with the optional content size', with_frame(zframe(struct.pack('<Q', len(ONE)), block(ONE), flags=0xc0)))
good('window-8m', 'the largest window that is allowed', with_frame(zframe(block(ONE), window=0x68)))
MEGA = bytes.fromhex('95 01 00 91 00 81 a4 64 61 74 61 c6 00 12 00 00')
good('rle', 'a record of 1.1 MiB, all zero bytes, in blocks of type RLE',
     with_frame(zframe(block(MEGA, False), *[block(b'\0', False, 1, 128 << 10)] * 9, block(pack('k')))))

def hint(*counts, **more): return mark('hint', {'counts': [list(c) for c in counts], **more})
LOW = {'record': 100, 'frame': 1000, 'depth': 5, 'id': 2, 'fields': 3}
good('hints', 'hints that tell the truth, one of them wide, beats between them',
     begin(TREE) + mark('hint', {}) + hint([0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1]) + frame(ONE + close([0], 1)) + mark('hint', {}) +
     hint([1, 0, 0, 0, 1, 0], wide=True) + frame(gone(0, 0, outcome=3, cause=cause(0, 0, anchor=[0]))) + end(COUNT1, (0, 0, 0, 1, 1)))
good('bars', 'barriers in a hint that announces no frame',
     begin(TREE) + mark('hint', {'bars': [[0, [3]], [1, [4, 0]]]}) + end([0] * 5, [0] * 5))
good('unknown-keys', 'keys that version 1 does not know, in every map',
     begin([domain('doc', new=1)], new={'a': [1]}, ops=[{'tool': 't', 'domain': 0, 'new': None}]) + mark('hint', {'new': 1}) +
     hint([0, 0, 0, 1, 0, 0], new=b'x') + frame(gone(0, cause=cause(0, new={'b': 2}))) + end((0, 0, 1, 0, 0), new='x'))
good('worker', 'the begin mark of a worker', begin(slots=8, beats=2000) + mark('hint', {}) + end())
good('limits', 'a writer with low limits, and records that reach them',
     begin(TREE, limits=LOW) + frame(item(0, 1, fields={'a': [[[]]], 'b': 0, 'data': 'x' * 77}) + ONE) + end(COUNT1, COUNT1),
     ('--max-record 100 --max-frame 1000 --max-depth 5 --max-id 2 --max-fields 3', 0), ('--max-record 99', 3), ('--max-frame 999', 3),
     ('--max-depth 4', 3), ('--max-id 1', 3), ('--max-fields 2', 3))

good('over-own-limits', 'records over the limits of their writer, which only a reader with the same limits has to notice',
     begin([domain('doc'), domain('page', 0), domain('region', 1)], limits=LOW) + frame(item(0, fields={'data': 'x' * 100})) +
     frame(item(1, fields={'a': [[[[]]]]})) + frame(item(0, 0, 0)) + frame(item(2, fields=dict.fromkeys('abcd'))) + frame(ONE * 126) +
     end((129, 0, 0, 0, 0), [0] * 5, COUNT1),
     ('--max-record 100', 3), ('--max-frame 1000', 3), ('--max-depth 5', 3), ('--max-id 2', 3), ('--max-fields 3', 3))

VALUES = {
    'nil': 'c0', 'false': 'c2', 'true': 'c3', 'u64 max': 'cf ffffffffffffffff', 'i64 min': 'd3 8000000000000000', 'minus one': 'ff',
    'NaN with a payload': 'cb 7ff8000000001234', 'signalling NaN': 'cb 7ff0000000000001', 'minus zero': 'cb 8000000000000000',
    'infinity': 'cb 7ff0000000000000', 'minus infinity': 'cb fff0000000000000', 'smallest double': 'cb 0000000000000001',
    '0.1': 'cb 3fb999999999999a', '1e22': 'cb 4480f0cf064dd592', '1e15': 'cb 430c6bf526340000', 'float32 0.5': 'ca 3f000000',
    'not UTF-8': 'a3 61 ff 62', 'surrogate': 'a3 ed a0 80', 'overlong': 'a2 c0 80', 'NUL': 'a3 61 00 62', 'UTF-8': 'a4 f0 9f 90 88',
    'escapes': 'a7 22 5c 08 1f 7f 0a 2f', 'bin': 'c4 02 00 ff', 'empty': '93 a0 c4 00 80', 'ext 5': 'd4 05 2a', 'ext 127': 'c7 00 7f',
    'ext -2': 'd5 fe 0102', 'timestamp': 'd6 ff 00000001', 'big number': 'c7 14 01' + b'18446744073709551616'.hex(),
    'overflow': 'c7 05 01' + b'1e400'.hex(), 'ext 1 that needs none': 'd4 01 35', 'ext 1 that is none': 'd5 01 2d2d',
    'keys of any type': '84 01 a1 61 c0 a1 62 90 a1 63 a1 64 a1 65', 'key twice': '82 a1 61 01 a1 61 02', 'a tag': '81 a4 24 62 69 6e a1 78',
    'key not UTF-8': '81 a1 ff 01', 'nested': '92 91 91 c0 81 a1 61 81 a1 62 90',
}
def fields_of(values): return pack(dict.fromkeys(values))[:3] + b''.join(pack(k) + bytes.fromhex(v) for k, v in values.items())
good('values', 'what must survive byte for byte', docs(raw_item(fields_of(VALUES))))
LONG = {'cc': 'cc 05', 'cd': 'cd 0005', 'ce': 'ce 00000005', 'cf': 'cf 0000000000000005', 'd0': 'd0 05', 'd1': 'd1 fffb',
        'd2': 'd2 fffffffb', 'd3': 'd3 fffffffffffffffb', 'd9': 'd9 01 61', 'da': 'da 0001 61', 'db': 'db 00000001 61',
        'c5': 'c5 0001 61', 'c6': 'c6 00000001 61', 'dc': 'dc 0001 05', 'dd': 'dd 00000001 05', 'de': 'de 0001 05 05',
        'df': 'df 00000001 05 05', 'c7': 'c7 01 05 61', 'c8': 'c8 0001 05 61', 'c9': 'c9 00000001 05 61'}
good('long-forms', 'numbers and lengths in longer formats than needed, those of the record included',
     docs(bytes.fromhex('dd 00000005 cd 0001 d0 00 dc 0001 cf 0000000000000000') + fields_of(LONG) + bytes.fromhex('da 0001 6b')))
good('depth', '32 nested containers', docs(raw_item(b'\x81\xa1a' + b'\x91' * 29 + b'\x90')))
good('keys', 'root items with keys of five types', docs(b''.join(item(i, key=k) for i, k in enumerate([1, '1', b'1', None, [1.5]])), (5, 0, 0, 0, 0)))

# ---- bad: the ends of a stream ----

bad('zero-bytes', 'no byte at all', b'')
bad('text', 'a text file', b'{"path": "a.pdf"}\n')
bad('cut-begin', 'the end of input in the begin mark', begin()[:-1])
bad('cut-after-begin', 'the end of input behind the begin mark', begin())
bad('cut-frame', 'the end of input in a frame', begin() + frame(ONE)[:-1])
bad('cut-between', 'the end of input between frame and end mark', begin() + frame(ONE))
bad('cut-end', 'the end of input in the end mark', docs(ONE)[:-1])
bad('cut-checksum', 'the end of input in a checksum', begin() + frame(ONE, 'checked')[:-1])
bad('cut-second', 'the second segment has no end', docs(ONE) + begin() + frame(item(1)))
bad('trailing', 'bytes behind the end mark', docs(ONE) + b'\0')
bad('trailing-frame', 'a frame behind the end mark', docs(ONE) + frame(ONE))
bad('end-twice', 'a second end mark', docs(ONE) + end(COUNT1))
bad('begin-twice', 'a begin mark inside a segment', begin() + docs(ONE))
bad('frame-first', 'a frame ahead of the begin mark', frame(ONE) + docs(ONE))
bad('hint-first', 'a hint ahead of the begin mark', mark('hint', {}) + docs(ONE))

# ---- bad: marks ----

def skippable(body, nibble=1): return head(0x184D2A50 + nibble, len(body)) + body
bad('mark-0', 'a skippable frame of magic 0x184D2A50', begin() + skippable(begin()[8:], 0) + end())
bad('mark-5', 'a skippable frame of magic 0x184D2A55', begin() + skippable(b'lx\x01\x80', 5) + end())
bad('mark-foreign', 'a skippable frame of somebody else', skippable(b'pzstd\0') + end())
bad('mark-short', 'a mark of two bytes', skippable(b'lx') + end())
bad('mark-huge', 'a mark that declares one byte over 16 MiB', head(0x184D2A51, (16 << 20) + 1) + begin()[8:])
bad('mark-no-map', 'a mark that holds an array', begin() + skippable(b'lx\x01\x90', 4) + end())
bad('mark-two-maps', 'a mark that holds two maps', begin() + skippable(b'lx\x01\x80\x80', 4) + end())
bad('mark-cut-map', 'a mark whose map does not end', begin() + skippable(b'lx\x01\x81\xa1a', 4) + end())
bad('mark-depth', 'a mark with 33 nested containers', begin() + mark('hint', b'\x81\xa1a' + b'\x91' * 31 + b'\x90') + end())
bad('mark-4g', 'a mark with an array that declares 2^32-1 elements', begin() + mark('hint', bytes.fromhex('81 a4 62617273 dd ffffffff')) + end())

bad('run-missing', 'no run id', with_begin(run=GONE))
bad('run-space', 'a run id with a space', with_begin(run='a b'))
bad('run-long', 'a run id of 129 bytes', with_begin(run='r' * 129))
bad('packing', 'a packing that version 1 does not have', with_begin(packing='lz4'))
bad('limits-missing', 'no limits', with_begin(limits=GONE))
bad('limits-type', 'a limit that is no number', with_begin(limits={**LIMITS, 'depth': '32'}))
bad('limits-above', 'a limit on records above that of the reader', with_begin(limits={**LIMITS, 'record': 1 << 40}))
bad('features-type', 'features that are no number', with_begin(features='none'))
bad('part-type', 'a part that is no number', with_begin(part='0'))
bad('ops-missing', 'no operations', with_begin(ops=GONE))
bad('ops-domain', 'an operation on a domain that is not there', with_begin(ops=[{'tool': 't', 'domain': 1}]))
bad('ops-fields', 'an operation that writes a field whose name is no str', with_begin(ops=[{'tool': 't', 'domain': 0, 'writes': [1]}]))
bad('tree-missing', 'no domains', with_begin(domains=[]))
bad('tree-65', '65 domains', with_begin(domains=[domain('d0')] + [domain('d%d' % i, 0) for i in range(1, 65)]))
bad('tree-deep', '17 domains, each below the one before', with_begin(domains=[domain('d%d' % i, i - 1 if i else None) for i in range(17)]))
bad('tree-name', 'a domain whose name begins with a digit', with_begin(domains=[domain('1st')]))
bad('tree-name-long', 'a domain whose name has 65 bytes', with_begin(domains=[domain('d' * 65)]))
bad('tree-twice', 'two domains of one name', with_begin(domains=[domain('doc'), domain('doc', 0)]))
bad('tree-parent', 'a domain that is its own parent', with_begin(domains=[domain('doc'), domain('page', 1)]))
bad('tree-two-roots', 'a second domain without parent', with_begin(domains=[domain('doc'), domain('page')]))
bad('tree-state', 'a state that version 1 does not have', with_begin(domains=[domain('doc', state='shut')]))
bad('tree-root-gathered', 'a root that is gathered', with_begin(domains=[domain('doc', state='gathered')]))
bad('tree-tolerance', 'a tolerance without a number', with_begin(domains=[domain('doc'), domain('page', 0, tolerance={})]))
bad('tree-percent', 'a tolerance of 100.01 percent', with_begin(domains=[domain('doc'), domain('page', 0, tolerance={'percent': 10001})]))

bad('end-counts', 'an end mark that counts an item too many', docs(ONE, (2, 0, 0, 0, 0)))
bad('end-outcome', 'an end mark that counts a dropped item as present', docs(gone(0, outcome=1)))
bad('end-closes', 'an end mark that forgets a close', begin(TREE) + frame(close([0], 0)) + end([0] * 5, [0] * 5))
bad('end-domains', 'an end mark with counts for one domain of two', begin(TREE) + end())
bad('end-missing', 'an end mark without counts', begin() + mark('end', {}))
bad('end-four', 'an end mark with four counts for a domain', begin() + end([0] * 4))

bad('hint-counts', 'a hint that counts an item too few', begin() + hint([0, 1, 0, 0, 0, 0]) + frame(ONE + item(1)) + end((2, 0, 0, 0, 0)))
bad('hint-domain', 'a hint that does not list a domain of the frame',
    begin(TREE) + hint([0, 1, 0, 0, 0, 0]) + frame(ONE + item(0, 0)) + end(COUNT1, COUNT1))
bad('hint-outcome', 'a hint that calls a failed item present', begin() + hint([0, 1, 0, 0, 0, 0]) + frame(gone(0, cause=cause(0))) + end((0, 0, 1, 0, 0)))
WIDE = gone(0, 0, cause=cause(0, 0, anchor=[0]))
bad('hint-narrow', 'a hint that hides a wide cause', begin(TREE) + hint([1, 0, 0, 1, 0, 0]) + frame(WIDE) + end([0] * 5, (0, 0, 1, 0, 0)))
good('hint-wide', 'a hint that warns of a wide cause where there is none', begin() + hint([0, 1, 0, 0, 0, 0], wide=True) + frame(ONE) + end(COUNT1))
bad('hint-unknown-domain', 'a hint on a domain that is not there', begin() + hint([0, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]) + frame(ONE) + end(COUNT1))
bad('hint-five', 'a hint with five numbers for a domain', begin() + hint([0, 1, 0, 0, 0]) + frame(ONE) + end(COUNT1))
bad('hint-type', 'a hint whose counts are a number', begin() + mark('hint', {'counts': 1}) + frame(ONE) + end(COUNT1))
bad('hint-end', 'a hint with counts ahead of the end mark', begin() + hint([0, 1, 0, 0, 0, 0]) + end())
bad('hint-hint', 'a hint with counts ahead of a hint', begin() + hint([0, 1, 0, 0, 0, 0]) + mark('hint', {}) + frame(ONE) + end(COUNT1))

# ---- bad: frames ----

bad('checksum', 'a checksum that does not match', with_frame(frame(ONE, 'checked')[:-1] + b'\0'))
bad('zstd-damaged', 'a compressed frame with a changed byte', with_frame(ZSTD[:-9] + bytes([ZSTD[-9] ^ 0x40]) + ZSTD[-8:]))
bad('zstd-checksum', 'a compressed frame with a wrong checksum', with_frame(ZSTD[:-1] + bytes([ZSTD[-1] ^ 1])))
bad('single-segment', 'a frame with the single-segment flag', with_frame(b'\x28\xb5\x2f\xfd\x20' + bytes([len(ONE)]) + block(ONE)))
bad('reserved-bit', 'a frame with the reserved bit', with_frame(zframe(block(ONE), flags=0x08)))
bad('dictionary', 'a frame with a dictionary id', with_frame(zframe(b'\x07', block(ONE), flags=0x01)))
bad('window-2g', 'a window of 2 GiB', with_frame(zframe(block(ONE), window=0xa8)))
bad('window-9m', 'a window of 9 MiB', with_frame(zframe(block(ONE), window=0x69)))
bad('block-type', 'a block of type 3', with_frame(zframe(block(ONE, kind=3))))
bad('block-huge', 'a block that declares one byte over 128 KiB', with_frame(zframe(block(b'\0', kind=1, size=(128 << 10) + 1))))
bad('block-window', 'a block larger than the window of its frame', with_frame(zframe(block(item(0, fields={'data': b'x' * 1100})), window=0)))
bad('frame-empty', 'a frame without content', with_frame(frame(b'')))
bad('frame-cut-record', 'a frame that ends inside a record', with_frame(frame(ONE[:-1])))
bad('frame-spanning', 'a record that goes on in the next frame', with_frame(frame(ONE[:3]) + frame(ONE[3:])))
bad('frame-bomb', 'a frame of 1 GiB and one block out of 33 KB', with_frame(zframe(*[block(b'\xc0', False, 1, 128 << 10)] * 8192, block(b'\xc0', True, 1, 128 << 10))))

# ---- bad: records ----

bad('reserved', 'the byte c1', in_doc(raw_item(b'\x81\xa1a\xc1')))
for name, bytes4 in ('bin', 'c6'), ('str', 'db'), ('array', 'dd'), ('map', 'df'), ('ext', 'c9'):
    bad('4g-' + name, '%s that declares 2^32-1 %s' % ('an ' + name if name[0] in 'ae' else 'a ' + name, 'elements' if name in ('array', 'map') else 'bytes'),
        in_doc(raw_item(b'\x81\xa1a' + bytes.fromhex(bytes4 + 'ffffffff') + bytes(8))))
bad('depth', '33 nested containers', in_doc(raw_item(b'\x81\xa1a' + b'\x91' * 30 + b'\x90')))
bad('depth-bomb', '100,000 nested arrays', with_frame(zframe(block(b'\x91', kind=1, size=100000))))
bad('fields', '4,097 fields', with_frame(zframe(block(bytes.fromhex('95 01 00 91 00 de 1001'), False), block(b'\xa0', False, 1, 2 * 4097), block(pack('k')))))
bad('no-array', 'a record that is a map', in_doc(pack({'kind': 1})))
bad('no-record', 'a number where a record should be', in_doc(ONE + b'\x05'))
bad('array-empty', 'a record without elements', in_doc(b'\x90'))
bad('kind-0', 'a record of kind 0', in_doc(pack([0, 0, [0], {}, 'k'])))
bad('kind-9', 'a record of kind 9', in_doc(pack([9, 0, [0], {}, 'k'])))
bad('kind-type', 'a record whose kind is a str', in_doc(pack(['1', 0, [0], {}, 'k'])))
bad('elements-root', 'a root item without key', in_doc(pack([1, 0, [0], {}])))
bad('elements-child', 'an item that is not at the root, with a key', in_tree(pack([1, 1, [0, 0], {}, 'k'])))
bad('elements-gone', 'a failed root item without key', in_doc(pack([2, 0, [0], 2, cause(0), {}])))
bad('elements-close', 'a close with seven elements', in_tree(pack([3, 1, [0], 0, 0, None, None])))
bad('domain', 'a domain that is not in the tree', in_doc(pack([1, 1, [0, 0], {}])))
bad('domain-negative', 'domain -1', in_doc(pack([1, -1, [0], {}, 'k'])))
bad('domain-gathered', 'an item of a domain that is gathered',
    begin([domain('doc'), domain('page', 0, 'gathered')]) + frame(item(0, 0)) + end([0] * 5, COUNT1))
bad('close-root', 'a close of the root domain', in_tree(pack([3, 0, [0], 0, 0, None])))
bad('id-empty', 'an id without ordinals', in_doc(pack([1, 0, [], {}, 'k'])))
bad('id-short', 'an item of the second level with an id of one ordinal', in_tree(pack([1, 1, [0], {}, 'k'])))
bad('id-long', 'a root item with an id of two ordinals', in_doc(pack([1, 0, [0, 0], {}])))
bad('id-17', 'an id of 17 ordinals', in_doc(pack([1, 0, [0] * 17, {}])))
bad('id-close', 'a close with the id of a child', in_tree(pack([3, 1, [0, 0], 0, 0, None])))
bad('id-type', 'an id that is a number', in_doc(pack([1, 0, 0, {}, 'k'])))
bad('ordinal-max', 'the ordinal 2^64-1', in_doc(item(2**64 - 1)))
bad('ordinal-negative', 'the ordinal -1', in_doc(item(-1)))
bad('ordinal-float', 'the ordinal 1.0', in_doc(item(1.0)))
bad('outcome-0', 'an item of kind 2 that is present', in_doc(gone(0, outcome=0)))
bad('outcome-4', 'an outcome of 4', in_doc(gone(0, outcome=4, cause=cause(0))))
bad('outcome-close', 'a close that is dropped', in_tree(close([0], 0, 1)))
bad('count-max', 'a close that counts 2^64-1 children', in_tree(close([0], 2**64 - 1)))
bad('count-negative', 'a close that counts -1 children', in_tree(close([0], -1)))
bad('cause-missing', 'a failed item without cause', in_doc(gone(0)))
bad('cause-present', 'a close that is present and has a cause', in_tree(close([0], 0, 0, cause(0))))
bad('cause-type', 'a cause that is a str', in_doc(gone(0, cause='bad')))
bad('cause-no-type', 'a cause without type', in_doc(gone(0, cause={k: v for k, v in cause(0).items() if k != 'type'})))
bad('cause-no-anchor', 'a cause without anchor', in_doc(gone(0, cause={k: v for k, v in cause(0).items() if k != 'anchor'})))
bad('cause-message', 'a cause whose message is a number', in_doc(gone(0, cause=cause(0, message=1))))
bad('cause-domain', 'a cause anchored in a domain that is not in the tree', in_doc(gone(0, cause=cause(0, anchor=[0, 0]))))
bad('cause-id', 'a cause with an origin of the wrong length', in_tree(gone(0, 0, cause={**cause(0, 0), 'origin': [1, [0]]})))
bad('fields-nil', 'a present item whose fields are nil', in_doc(pack([1, 0, [0], None, 'k'])))
bad('fields-type', 'a present item whose fields are an array', in_doc(pack([1, 0, [0], [], 'k'])))
bad('fields-name', 'a field whose name is a number', in_doc(pack([1, 0, [0], {1: 1}, 'k'])))
bad('fields-name-bin', 'a field whose name is a bin', in_doc(pack([1, 0, [0], {b'a': 1}, 'k'])))

# ---- bad: segments, parts, aborts ----

bad('trees', 'two segments of one run with different trees', docs(ONE) + begin(TREE) + end([0] * 5, [0] * 5), 2)
bad('trees-state', 'two segments of one run, a domain gathered in one of them',
    begin(TREE) + end([0] * 5, [0] * 5) + begin([domain('doc'), domain('page', 0, 'gathered')]) + end([0] * 5, [0] * 5), 2)
bad('trees-tolerance', 'two segments of one run with different tolerances',
    begin(TREE) + end([0] * 5, [0] * 5) + begin([domain('doc'), domain('page', 0, tolerance={'n': 1})]) + end([0] * 5, [0] * 5), 2)
bad('run-back', 'a run that comes back after another', docs(ONE) + begin(run='other') + end() + docs(item(1)), 2)
bad('part-and-whole', 'a segment with a part and one without in one run', part(0, ONE, parts=1) + docs(item(1)), 2)
bad('whole-and-part', 'the other way round', docs(ONE) + part(0, item(1), parts=1), 2)
bad('part-missing', 'part 1 of 3 is missing', part(0, ONE) + part(2, item(2), parts=3))
bad('part-missing-run', 'part 1 of 2 is missing when another run begins', part(0, ONE) + begin(run='other') + end())
bad('part-last-unknown', 'no part says how many there are', part(0, ONE) + part(1, item(1)))
bad('part-over', 'a part 2 of 2', part(0, ONE) + part(1, item(1), parts=2) + part(2, item(2)))
bad('part-number', 'part 1048576', part(1 << 20, ONE, parts=(1 << 20) + 1))
bad('part-total', 'part 0 says that there are 2', part(0, ONE, parts=2) + part(1, item(1), parts=2))
bad('parts-type', 'a number of parts that is no number', part(0, ONE, parts='1'))
bad('parts-whole', 'a number of parts in a segment that is no part', begin() + frame(ONE) + end(COUNT1, parts=1))

def abort(code, **more): return mark('abort', {'code': code, 'stage': 'lx-map', 'message': 'why', **more})
for code, what in (2, 'usage'), (3, 'data'), (4, 'version'), (5, 'system'), (6, 'worker'), (7, 'timeout'):
    bad('abort-%d' % code, 'an abort mark: ' + what, begin() + frame(ONE) + abort(code), code)
bad('abort-first', 'an abort mark ahead of any begin mark', abort(6), 6)
bad('abort-between', 'an abort mark behind a segment', docs(ONE) + abort(6), 6)
bad('abort-behind', 'an abort mark and bytes behind it, which nobody reads', begin() + abort(6) + b'\0', 6)
bad('abort-code-1', 'an abort mark with code 1', begin() + abort(1))
bad('abort-code-8', 'an abort mark with code 8', begin() + abort(8))
bad('abort-message', 'an abort mark without message', begin() + mark('abort', {'code': 6, 'stage': 'lx-map'}))

# ---- unsupported ----

unsupported('version-2', 'a begin mark of version 2 that is a map', mark('begin', {'run': 'r'}, 2))
unsupported('version-2-other', 'a begin mark of version 2 that is no map', mark('begin', b'\xc1', 2))
unsupported('version-2-bare', 'a begin mark of version 2 and nothing more', mark('begin', b'', 2))
unsupported('version-0', 'a begin mark of version 0', mark('begin', {}, 0))
unsupported('version-end', 'an end mark of version 2', begin() + mark('end', {'counts': [[0] * 5]}, 2))
unsupported('feature-0', 'feature bit 0', with_begin(features=1))
unsupported('feature-63', 'feature bit 63', with_begin(features=1 << 63))
unsupported('feature-other', 'feature bit 0, and a mark that means something else with it', mark('begin', {'features': 1, 'run': [1]}))

README = '''# Corpus

Streams that say what lx-stream(5) means. `good-*` are read to their end, `bad-*` are refused, `unsupported-*` are of
a later version. `make.py` writes them and this file; do not edit either by hand.

The status is what every reader of a stream exits with, under the limits given, else under the default ones.

| file | status | options | what it is |
|---|---|---|---|
'''

def records_of(stream):
    """The records of a good stream, as bytes."""
    at = 0
    while at < len(stream):
        if stream[at:at + 4] != b'\x28\xb5\x2f\xfd':
            at = open_mark(stream, at)[2]
            continue
        start, at = at, frame_end(stream, at)
        content, begin = open_frame(stream[start:at]), 0
        for _, end in values(content):
            yield content[begin:end]
            begin = end

def write_seeds(to):
    good = [r for name, stream in FILES.items() if name.startswith('good-') for r in records_of(stream)]
    for content in SEEDS + [r for r in good if len(r) < 4096]:
        with open(os.path.join(to, hashlib.sha1(content).hexdigest()[:16]), 'wb') as f:
            f.write(content)

def main(to=HERE, seeds=os.path.join(HERE, '../fuzz/seeds/record')):
    for name, stream in FILES.items():
        with open(os.path.join(to, name), 'wb') as f:
            f.write(stream)
    with open(os.path.join(to, 'README.md'), 'w') as f:
        f.write(README + ''.join('| %s | %d | %s | %s |\n' % row for row in ROWS))
    write_seeds(seeds)

if __name__ == '__main__':
    main(*sys.argv[1:])
