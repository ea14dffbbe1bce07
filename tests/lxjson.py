"""The JSON of lx-stream(5), CANONICAL FORM, in both directions. Maps are lists of pairs, so that order and equal keys stay."""
import base64, json, math, re
from collections import namedtuple

class Str(bytes): pass  # a str that is not UTF-8
Ext = namedtuple('Ext', 'type data')
class Map(list):
    def get(self, key, default=None):
        return next((v for k, v in self if type(k) is str and k == key), default)

TAGS = {'$bin': base64.b64decode, '$str': lambda s: Str(base64.b64decode(s)), '$float': float,
        '$ext': lambda a: Ext(a[0], base64.b64decode(a[1])), '$map': lambda a: Map(map(tuple, a))}

def beyond(text):
    """Whether this is a JSON number that neither 64-bit integers nor doubles hold."""
    m = re.fullmatch(r'(-?(?:0|[1-9][0-9]*)(\.[0-9]+)?)([eE][+-]?[0-9]+)?', text)
    if m and not m[2] and not m[3]:
        return not -2**63 <= int(text) < 2**64
    return bool(m) and (math.isinf(float(text)) or not float(text) and bool(re.search('[1-9]', m[1])))

def dump(v):
    b64 = lambda b: base64.b64encode(b).decode()
    if isinstance(v, float):
        text = next(t for t in ('%.*g' % (n, v) for n in (15, 16, 17)) if n_equal(t, v))
        return '{"$float":"%s"}' % v if not math.isfinite(v) else text if re.search('[.e]', text) else text + '.0'
    if isinstance(v, bytes):
        return '{"$%s":"%s"}' % ('str' if type(v) is Str else 'bin', b64(v))
    if type(v) is Ext:
        text = v.data.decode('latin-1')
        return text if v.type == 1 and beyond(text) else '{"$ext":[%d,"%s"]}' % (v.type, b64(v.data))
    if type(v) is Map:
        keys = [k for k, _ in v]
        if all(type(k) is str for k in keys) and len(set(keys)) == len(keys) and not (len(keys) == 1 and keys[0] in TAGS):
            return '{%s}' % ','.join(dump(k) + ':' + dump(x) for k, x in v)
        return '{"$map":[%s]}' % ','.join(dump(list(pair)) for pair in v)
    return '[%s]' % ','.join(map(dump, v)) if type(v) is list else json.dumps(v, ensure_ascii=False)

def n_equal(text, v):
    return float(text) == v or v != v

def load(text):
    number = lambda s: Ext(1, s.encode()) if beyond(s) else int(s) if s.lstrip('-').isdigit() and s != '-0' else float(s)
    tagged = lambda pairs: TAGS[pairs[0][0]](pairs[0][1]) if len(pairs) == 1 and pairs[0][0] in TAGS else Map(pairs)
    return json.loads(text, object_pairs_hook=tagged, parse_int=number, parse_float=number)
