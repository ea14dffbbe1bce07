#!/usr/bin/python3
"""Random pipelines against a naive model of the outcome rules of lx(7).

    random_pipelines.py [-s SEED] [-n COUNT] [-k] [-v]

Each seed makes a tree of items, texts, and what becomes of each item in each stage (kept, dropped, failed with a type
and a scope, killed, tried again), and a pipeline of random shape: nested domains and a sibling domain, tolerances,
worker pools, fields given from ancestors to descendants, framing, packing, shuffles that repeat and lose records. The data alone decides what happens, so the model
knows the verdict of each root item, the fields of the present ones, `missing`, and the sums of every stage. Where the
rules leave room (two reasons in a race), the model says which verdicts are possible. Then what failed is replayed with
its causes removed and has to come out as if nothing had happened. -k keeps the directory, -v prints the script.
"""
import argparse, copy, json, os, random, shutil, subprocess, sys, tempfile
import lxpeer

# What a stage does with an item: the first line of standard input, or, where that is the payload, $LX_FIELD_....
ACT = r'''
case $line in ok | *-fixed) return ;; esac
set -- $line
case $1${LX_FIXED:+-fixed} in
fail) lx-fail -t "$2" --scope "$3" "it was $LX_ID" ;;
exit) exit "$2" ;;
again) [ -e "$ONCE/$2" ] || { : >"$ONCE/$2"; exit 75; } ;;
once) [ -e "$ONCE/$2" ] || { : >"$ONCE/$2"; kill -KILL $$; } ;;
lost) [ -e "$ONCE/$2" ] || { : >"$ONCE/$2"; kill -KILL $PPID; } ;;
kill) kill -KILL $$ ;;
esac
'''
SCRIPTS = {
    'act': ACT,
    'map': 'read -r line\n. "$ACT"\necho "ok $LX_ID"\n',
    'filter': 'read -r line\n[ "$line" != drop ] || exit 1\n. "$ACT"\n',
    'expand': 'eval "line=\\$LX_FIELD_$1"\n. "$ACT"\nexec cat\n',
    'gather': 'eval "line=\\$LX_FIELD_$1"\n. "$ACT"\nexec tr a-z A-Z\n',
}

# ---- a case ----

class Case: pass

def text(r, case):
    return ''.join(r.choice('abcdefgh  \u00e9\U0001f408"\\\t') for _ in range(r.choice([0, 1, 3, 9, 9, 200, case.big]))) + r.choice('xyz')

def behaviour(r, op, dom, case, rate):
    """What a stage does with an item, as the first line of the command's input."""
    case.serial += 1
    if op['safe'] or r.random() > rate:
        return 'ok'
    kinds = ['drop'] * 3 if op['kind'] in ('filter', 'filtercmd') else []
    if op['kind'] != 'filter':
        up = case.above(dom)
        kinds += ['fail bad%d %s' % (r.randrange(3), r.choice(['record', 'record', 'parent'] + up)) for _ in range(4)]
        kinds += ['exit 3', 'again %d' % case.serial, 'once %d' % case.serial]
        kinds += ['kill'] if r.random() < .3 else []
        kinds += ['lost %d' % case.serial] if op['pool'] else []
    return r.choice(kinds)

def make_case(seed):
    r = random.Random(seed)
    c = Case()
    c.r, c.seed, c.serial, c.ops = r, seed, 0, []
    c.big = r.choice([1, 1, 1, 9000])
    deep = r.choice([1, 1, 2, 2, 2])
    c.parent = {'a': None, 'b': 'a'}
    if deep == 2:
        c.parent['c'] = 'b'
    if r.random() < .4:
        c.parent['s'] = r.choice(['a', 'b'] if deep == 2 else ['a'])
    def above(d):
        return [] if d is None or c.parent[d] is None else [c.parent[d]] + above(c.parent[d])
    c.above = above
    c.tol = {d: r.choice([None] * 3 + ['1', '2', '10%', '34%', '50%', '99.99%']) for d in c.parent if d != 'a'}
    open_ = ['a']
    b = random.Random('broadcast %d' % seed) # of its own: what the others draw stays as it was
    def broadcast(d):
        for of in c.above(d):
            if b.random() < .2:
                maps = ['r' + o['n'] for o in c.ops if o['op'] == 'work' and o['d'] == of and o['kind'] == 'map']
                fields = b.choice([['u'], ['v'], ['u', 'v'], maps[-1:] or ['u']])
                names = ['x%d' % len(c.ops)] if len(fields) == 1 and b.random() < .7 else fields
                if 'u' in names: fields = names = ['v'] # u tells a failed item by
                c.ops.append(dict(op='broadcast', d=d, of=of, fields=fields, names=names, mem=b.choice(['', '', '--mem 1M'])))
    def work(d, most=2):
        broadcast(d)
        for _ in range(r.randrange(most)):
            busy = any(c.parent[x] == d for x in open_)
            kind = r.choice(['map', 'map', 'filter', 'filtercmd'])
            c.ops.append(dict(op='work', d=d, n='w%d' % len(c.ops), kind=kind, pool=r.random() < .35, safe=busy))
    def between():
        if r.random() < .35:
            c.ops.append(dict(op='batch'))
        if r.random() < .25:
            c.ops.append(dict(op='shuffle', lose=r.random() < .3))
        if r.random() < .1:
            c.ops.append(dict(op='cat'))
    def expand(d):
        c.ops.append(dict(op='expand', d=d, of=c.parent[d], cmd=r.random() < .4, n='e' + d))
        open_.append(d)
        between(); work(d, 3); between()
        if d == 'c' and 's' in open_: work('s')
        if r.random() < .15: work(c.parent[d])
    def gather(d):
        open_.remove(d)
        c.ops.append(dict(op='gather', d=d, mode=r.choice(['array', 'array', 'u', 'concat', 'lines', 'cmd']), n='g' + d))
        work(c.parent[d], 3); between()
    work('a')
    order = [d for d in c.parent if d != 'a']
    if 's' in order and c.parent['s'] == 'a' and r.random() < .5:
        order = ['s'] + [d for d in order if d != 's']
    for d in order: expand(d)
    left = order[:]
    while left:
        d = r.choice([x for x in left if not any(c.parent[y] == x for y in left)])
        left.remove(d)
        gather(d)
    rate = r.choice([0, .02, .05, .1, .3])
    leaves = r.choice([1, 2, 4, 8])
    def item(d):
        f = {'u': text(r, c)}
        if b.random() < .97: f['v'] = 'v%d' % b.randrange(1000)
        for op in c.ops:
            if op['op'] == 'work' and op['d'] == d:
                f[op['n']] = behaviour(r, op, d, c, rate)
            if (op['op'] == 'expand' and op['of'] == d and op['cmd']) or (op['op'] == 'gather' and c.parent[op['d']] == d and op['mode'] == 'cmd'):
                f[op['n']] = behaviour(r, dict(kind='x', pool=False, safe=False), d, c, rate / 2)
        for op in c.ops:
            if op['op'] == 'expand' and op['of'] == d:
                kids = [item(op['d']) for _ in range(r.choice([0, 1, 2, leaves, leaves, r.randrange(leaves + 1)]))]
                f[op['d'].upper()] = ''.join(json.dumps(k) + '\n' for k in kids) if op['cmd'] else kids
        return f
    c.roots = [item('a') for _ in range(r.choice([0, 1, 3, 10, 10, 25]))]
    return c

# ---- the model ----

class Item:
    def __init__(self, d, id_, f, up):
        self.d, self.id, self.f, self.up = d, id_, f, up
        self.state, self.types, self.kids, self.bad_close, self.causes, self.why = 'present', set(), {}, {}, set(), set()
        self.lost = self.twin = False
        self.closes_lost, self.loose = set(), False

    def ancestor(self, d):
        return self if self.d == d else self.up.ancestor(d)

    def trouble(self):
        """What here and below may doom what is above."""
        bad = self.state in ('failed', 'suppressed') or self.bad_close or self.causes
        return [self] * bool(bad) + [x for kids in self.kids.values() for k in kids for x in k.trouble()]

class Model:
    """Every op on every item, as if nothing was ever barred. `blind`: causes that reach this domain or above it do not
    happen; `mute`: (origin, op) whose wide causes are not heard of above the item itself."""
    def __init__(self, case, blind=None, mute=(), fixed=False):
        self.c, self.blind, self.mute, self.fixed = case, blind, mute, fixed
        self.wide = []
        self.items = {d: [] for d in case.parent}
        for i, f in enumerate(case.roots):
            self.add('a', (i,), f, None)
        for op in case.ops:
            getattr(self, op['op'])(op)

    def add(self, d, id_, f, up):
        it = Item(d, id_, dict(f), up)
        self.items[d].append(it)
        return it

    def present(self, d):
        return [i for i in self.items[d] if i.state == 'present' and not i.lost]

    def judge(self, it, op, act, expand=None):
        """What becomes of one item in one op; True when it stays."""
        word, *more = act.split(' ')
        if self.fixed and word not in ('drop',):
            return True
        if word == 'drop':
            it.state = 'dropped'
            return False
        if word not in ('fail', 'exit', 'kill'):
            return True
        kind = {'exit': 'exit', 'kill': 'crash'}.get(word) or more[0]
        scope = more[1] if word == 'fail' else 'record'
        anchor = it.d if scope == 'record' else (self.c.parent[it.d] or it.d) if scope == 'parent' else scope
        if self.blind and anchor in [self.blind] + self.c.above(self.blind):
            return True
        if anchor != it.d:
            self.wide.append((it.d, it.id, op['n'], anchor))
            if (it.d, it.id, op['n']) not in self.mute:
                it.ancestor(anchor).causes.add(kind)
        it.types = {kind}
        if expand:
            it.bad_close[expand] = kind
        else:
            it.state = 'failed'
        return False

    def batch(self, op): pass
    cat = batch

    def work(self, op):
        for it in self.present(op['d']):
            if self.judge(it, op, it.f[op['n']]) and op['kind'] == 'map':
                it.f['r' + op['n']] = 'ok ' + '.'.join(map(str, it.id))

    def broadcast(self, op):
        for it in self.present(op['d']):
            up = it.ancestor(op['of'])
            if up.lost or any(f not in up.f for f in op['fields']):
                it.state, it.types = 'failed', {'orphan' if up.lost else 'no-field'}
            else:
                it.f.update((name, up.f[f]) for f, name in zip(op['fields'], op['names']))

    def expand(self, op):
        for it in self.present(op['of']):
            kids = it.f[op['d'].upper()]
            it.kids[op['d']] = []
            if op['cmd'] and not self.judge(it, op, it.f[op['n']], op['d']) and it.f[op['n']].split(' ')[0] != 'fail':
                continue
            if op['cmd']:
                kids = [json.loads(k) for k in kids.split('\n') if k]
            it.kids[op['d']] = [self.add(op['d'], it.id + (n,), f, it) for n, f in enumerate(kids)]

    def shuffle(self, op):
        lose = op.get('lost', ())
        for d in self.items:
            for it in self.items[d]:
                if it.state == 'present' and not it.lost and ('item', d, it.id) in lose and not self.fixed:
                    it.lost = True
                for k in it.kids:
                    if ('close', k, it.id) in lose and k not in it.bad_close and not self.fixed:
                        it.closes_lost.add(k)

    def bears(self, d, n):
        t = self.c.tol[d]
        return 0 if not t else int(round(float(t[:-1]) * 100)) * n // 10000 if t[-1] == '%' else int(t)

    def gather(self, op):
        d, up = op['d'], self.c.parent[op['d']]
        for p in self.items[up]:
            if d not in p.kids or p.state != 'present':
                continue
            kids = p.kids[d]
            bad = [k for k in kids if k.state in ('failed', 'suppressed')]
            lost = [k for k in kids if k.lost]
            if p.lost: # judged as an orphan when something of it is left
                p.lost, p.state, p.types = False, 'failed', {'orphan', 'incomplete'}
                p.loose = True
                for k in bad: p.types |= k.types
                continue
            why = set()
            if d in p.bad_close: why.add('failed')
            if p.causes or len(bad) > self.bears(d, len(kids)): why.add('suppressed')
            if (lost or d in p.closes_lost) and (not why or (self.c.tol[d] or '')[-1:] == '%'):
                why.add('failed'); p.types.add('incomplete')
            others = [k for x in p.kids if x != d for top in p.kids[x] for k in top.trouble()]
            if others or any(x != d for x in p.bad_close):
                why |= {'failed', 'suppressed'} if why else why
                for k in others: p.types |= k.types | k.causes
            if any(x != d for x in p.bad_close) and d not in p.bad_close: why |= {'failed', 'suppressed'}
            if any(k.loose for k in kids): why |= {'failed', 'suppressed'} if why else why
            if why:
                p.state, p.why = ('suppressed' if 'suppressed' in why else 'failed'), why
                p.types |= p.causes
                for k in bad: p.types |= k.types
                p.types |= set(p.bad_close.values())
                if len(why) == 2: p.types.add('incomplete')
                continue
            kept = [k for k in kids if k.state == 'present']
            if op['mode'] == 'cmd' and not self.judge(p, op, p.f[op['n']]):
                p.why = {'failed'}
                continue
            if bad:
                p.f['missing'] = p.f.get('missing', []) + [[k.id[-1], k.types, d] for k in bad]
            if op['mode'] == 'array':
                p.f[d] = [{'ordinal': k.id[-1], **k.f} for k in kept]
            elif op['mode'] == 'u':
                p.f[d] = [{'ordinal': k.id[-1], 'u': k.f['u']} for k in kept]
            elif op['mode'] == 'lines':
                p.f[d] = ''.join(k.f['u'] + '\n' for k in kept)
            else:
                joined = ''.join(k.f['u'] for k in kept)
                p.f[d] = joined if op['mode'] == 'concat' else ''.join(x.upper() if x.isascii() else x for x in joined)

def avoidable(case, wide):
    """Wide causes that may not come about, since something between them and their anchor is lost for a reason of its own."""
    mute = set()
    for anchor in {w[3] for w in wide}:
        blind = Model(case, blind=anchor)
        at = {(d, i.id): i for d in blind.items for i in blind.items[d]}
        for d, id_, n, to in wide:
            if to != anchor: continue
            it = own = at.get((d, id_))
            while it and it.d != anchor:
                # What else befalls the item itself comes later than this.
                if it.bad_close or (it is not own and it.state != 'present'): mute.add((d, id_, n))
                it = it.up
    return mute

# ---- the pipeline ----

def script(case, r, tap):
    """The stages as shell commands; how they run (jobs, frames, packing) is drawn from r."""
    j = lambda: '-j %d' % r.choice([1, 2, 4])
    packing = lambda: r.choice(['', '', '', '--compress raw', '--compress checked', '--compress zstd'])
    mem = lambda least: r.choice(['', '--mem ' + least])
    names, stages, n = [], ['lx-in --run r%d --jsonl -d a %s <in.jsonl' % (case.seed, packing())], 0
    def stage(cmd):
        names.append('s%d' % len(names))
        tool, rest = cmd.split(' ', 1)
        stages.append('%s --stats %s.%s %s' % (tool, tap, names[-1], rest))
    for op in case.ops:
        d = op.get('d')
        if op['op'] == 'work':
            retry = r.choice(['', '--retry 2'])
            if op['kind'] == 'filter':
                cmd, tail = 'lx-filter -d %s' % d, " '%s!=drop'" % op['n']
            elif op['kind'] == 'map':
                cmd, tail = 'lx-map -q -d %s -i %s -o r%s:str %s' % (d, op['n'], op['n'], j()), ' -- sh "$MAP"'
            else:
                cmd, tail = 'lx-filter -q -d %s -i %s %s' % (d, op['n'], j()), ' -- sh "$FILTER"'
            if op['pool']:
                frame = r.choice(['-n 1', '-n 3', '-n 64', '-b 300', '-n 5 -b 1K'])
                order = r.choice(['', '--order fifo', '--fixed', '--linger 0'])
                cmd = 'lx-batch -q -d %s %s %s -j %d %s -- %s' % (d, frame, order, r.randrange(1, 5), packing(), cmd)
                stage(cmd + tail)
            else:
                stage(cmd + ' ' + packing() + tail)
        elif op['op'] == 'expand':
            tol = '--tolerate ' + case.tol[d] if case.tol[d] else ''
            cmd = 'lx-expand -q -d %s --of %s --keep %s -i %s' % (d, op['of'], tol, d.upper())
            stage(cmd + (' -s jsonl --env %s %s -- sh "$EXPAND" %s' % (op['n'], j(), op['n']) if op['cmd'] else ' ' + packing()))
        elif op['op'] == 'gather':
            how = {'array': '', 'u': '-f u', 'concat': '-s concat -i u', 'lines': '-s lines -i u',
                   'cmd': '-i u --env %s -- sh "$GATHER" %s' % (op['n'], op['n'])}[op['mode']]
            how, dash, tail = how.partition(' -- ')
            stage('lx-gather -q -d %s %s %s%s%s' % (d, mem('1M'), how, dash, tail))
        elif op['op'] == 'broadcast':
            name = ' -o ' + op['names'][0] if op['names'] != op['fields'] else ''
            stage('lx-broadcast -q -d %s --of %s -i %s%s %s' % (d, op['of'], ','.join(op['fields']), name, op['mem']))
        elif op['op'] == 'batch':
            stage('lx-batch %s %s %s' % (r.choice(['-n 1', '-n 2', '-n 7', '-n 1000', '-b 1', '-b 500']), r.choice(['', '--linger 1']), packing()))
        elif op['op'] == 'cat':
            stages.append('lx-cat %s' % packing())
        else:
            stages.append('"$PY" "$SELF" shuffle %s %d' % (op['file'] if not tap.startswith('again') else 'none.json', r.randrange(1 << 30)))
    stages.append('tee %s.lx' % tap)
    ordered = r.random() < .3
    out = 'lx-out -q --max-failed 100%% %s %s --failures %s.bad --stats %s.out >%s.jsonl' % (
        '--ordered' if ordered else '', mem('1M') if ordered else '', tap, tap, tap)
    return ' |\n    '.join(stages + [out]) + '\n', names, ordered

def shuffle(file, seed):
    """A filter: the same records in any order, some twice, and without those that the file names."""
    r = random.Random(int(seed))
    lose = {tuple(map(str, x)) for x in json.load(open(file))} if os.path.exists(file) else set()
    raw = sys.stdin.buffer.read()
    rd = lxpeer.Reader()
    at, begin = 0, None
    try:
        while begin is None:
            _, begin, at = lxpeer.open_mark(raw, at)
        rd.read(raw)
    except lxpeer.Bad as e:
        print('shuffle: %s' % e.args[0], file=sys.stderr)
        return e.args[1]
    names = [d.get('name') for d in begin.get('domains')]
    records = []
    for _, rec in rd.records:
        what = 'close' if rec[0] == 3 else 'item'
        if rec[0] != 2 and (rec[0] != 3 or rec[4] == 0) and (what, names[rec[1]], '.'.join(map(str, rec[2]))) in lose:
            continue
        records += [rec] * (2 if r.random() < .1 else 1)
    window = r.choice([2, 10, 10 ** 9, 10 ** 9])
    for i in range(0, len(records), window):
        part = records[i:i + window]
        r.shuffle(part)
        records[i:i + window] = part
    w = lxpeer.Writer(r.choice(['raw', 'checked', 'zstd']), r.random() < .5)
    w.begin(lxpeer.Map(begin))
    for rec in records:
        w.record(rec)
        if r.random() < .1: w.flush()
    sys.stdout.buffer.write(w.finish())
    return 0

# ---- a run and what is checked ----

class Wrong(Exception): pass

def need(ok, *why):
    if not ok:
        raise Wrong(' '.join(map(str, why)))

def run(case, where, tap, r, env):
    text_, names, ordered = script(case, r, tap)
    open(os.path.join(where, tap + '.sh'), 'w').write('set -o pipefail\n' + text_)
    p = subprocess.run(['timeout', '-k', '5', '90', 'bash', tap + '.sh'], cwd=where, env=env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=open(os.path.join(where, tap + '.err'), 'w'))
    need(p.returncode == 0, tap, 'exit', p.returncode, open(os.path.join(where, tap + '.err')).read()[-600:])
    return names, ordered

def lines(path):
    return [json.loads(x) for x in open(path)]

def total(x, d):
    return sum(x.get(d, {}).get(o, 0) for o in ('present', 'dropped', 'failed', 'suppressed'))

def check_sums(case, where, tap, names):
    """Conservation in every stage, and between neighbours."""
    ops = [o for o in case.ops if o['op'] not in ('shuffle', 'cat')]
    need(len(ops) == len(names), 'stages')
    for op, name in zip(ops, names):
        [s] = lines(os.path.join(where, '%s.%s' % (tap, name)))
        for d in set(s['in']) | set(s['out']):
            same = total(s['in'], d) == total(s['out'], d) + (s['duplicates'] if op['op'] == 'broadcast' and d == op['d'] else 0)
            if op['op'] == 'expand' and d == op['d']: continue
            if op['op'] == 'gather':
                if d == case.parent[op['d']]:
                    need(total(s['out'], d) <= total(s['in'], d) + s.get('orphans', 10 ** 9), name, 'parents', s)
                    continue
                if d == op['d']:
                    parts = sum(s[k] for k in ('joined', 'dropped', 'failed', 'suppressed', 'discarded', 'duplicates'))
                    need(s['children'] == parts == total(s['in'], d), name, 'children', s)
                    continue
            need(same, name, op, 'conservation of', d, s)
        if 'doomed' in s:
            x = s['doomed']
            need(x['received'] == sum(v for k, v in x.items() if k not in ('received', 'parents')), name, 'doomed', x)

def same(got, want):
    if isinstance(want, set):
        return got in want
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[k], v) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and got == want

def check(case, where, tap, model, maybe, only=None):
    out = lines(os.path.join(where, tap + '.jsonl'))
    bad = {tuple(x['lx']['id']): x for x in lines(os.path.join(where, tap + '.bad'))}
    got = {}
    for x in out:
        id_ = tuple(x.pop('lx')['id'])
        need(id_ not in got, id_, 'twice')
        got[id_] = x
    unsure = 0
    for it, other in zip(model.items['a'], maybe.items['a']):
        if only is not None and it.id not in only:
            need(it.id not in got, it.id, 'was not replayed but came')
            continue
        have = 'present' if it.id in got else bad[it.id]['lx']['outcome'] if it.id in bad else 'dropped'
        can = {it.state} | (it.why if it.state != 'present' else set()) | {other.state} | (other.why if other.state != 'present' else set())
        need(have in can, it.id, 'is', have, 'not', can, bad.get(it.id, {}).get('lx'), it.types)
        unsure += it.state != other.state
        if have == 'present' and it.state == 'present' and other.state == 'present' and it.f != other.f:
            continue
        if have == 'present':
            want = (it if it.state == 'present' else other).f
            if not same(got[it.id], want):
                diff = {k: (got[it.id].get(k), want.get(k)) for k in set(got[it.id]) | set(want) if not (k in want and k in got[it.id] and same(got[it.id][k], want[k]))}
                raise Wrong('%s: fields differ (got, want): %s' % (it.id, json.dumps(diff, default=list)))
        elif have != 'dropped':
            need(bad[it.id]['lx']['cause']['type'] in it.types | other.types, it.id, 'has type', bad[it.id]['lx']['cause']['type'], 'not', it.types)
            need(bad[it.id].get('u') == it.f['u'], it.id, 'lost its fields')
    need(len(got) + len(bad) <= len(model.items['a']), 'more roots than went in')
    return got, bad, unsure

def lose(case, r):
    """Choose what the shuffles lose, from what the model says is there."""
    m = Model(case)
    opened = ['a']
    for i, op in enumerate(case.ops):
        if op['op'] == 'expand': opened.append(op['d'])
        if op['op'] == 'gather': opened.remove(op['d'])
        if op['op'] != 'shuffle': continue
        op['file'], op['lost'] = 'lose%d.json' % i, set()
        if not op['lose']: continue
        for d in opened[1:]:
            for it in m.items[d]:
                if r.random() < .02: op['lost'].add(('item', d, it.id))
            for it in m.items[case.parent[d]]:
                if r.random() < .01: op['lost'].add(('close', d, it.id))

def run_seed(seed, where, verbose):
    case = make_case(seed)
    r = case.r
    lose(case, r)
    open(os.path.join(where, 'in.jsonl'), 'w').writelines(json.dumps(f) + '\n' for f in case.roots)
    for op in case.ops:
        if op['op'] == 'shuffle':
            json.dump([(w, d, '.'.join(map(str, i))) for w, d, i in op['lost']], open(os.path.join(where, op['file']), 'w'))
    for name, body in SCRIPTS.items():
        open(os.path.join(where, name), 'w').write(body)
    os.mkdir(os.path.join(where, 'once'))
    env = dict(os.environ, ONCE=where + '/once', SELF=os.path.abspath(__file__), **{k.upper(): '%s/%s' % (where, k) for k in SCRIPTS},
               PY=sys.executable, TMPDIR=where)
    model = Model(case)
    maybe = Model(case, mute=avoidable(case, model.wide))
    names, ordered = run(case, where, 'first', r, env)
    if verbose: print(open(where + '/first.sh').read())
    got, bad, unsure = check(case, where, 'first', model, maybe)
    if ordered:
        ids = [x['lx']['id'] for x in lines(where + '/first.jsonl')]
        need(ids == sorted(ids), 'not in order')
    check_sums(case, where, 'first', names)
    if bad:
        subprocess.run(['timeout', '60', 'sh', '-c', 'lx-fail --replay <first.lx >replay.lx 2>replay.err'], cwd=where, check=True)
        again = copy.copy(case)
        text_, names, _ = script(again, r, 'again')
        text_ = 'lx-cat replay.lx |\n    ' + text_.split('|\n', 1)[1].lstrip()
        open(where + '/again.sh', 'w').write('set -o pipefail\n' + text_)
        p = subprocess.run(['timeout', '-k', '5', '90', 'bash', 'again.sh'], cwd=where, env=dict(env, LX_FIXED='1'), stdin=subprocess.DEVNULL,
                           stderr=open(where + '/again.err', 'w'))
        need(p.returncode == 0, 'replay: exit', p.returncode, open(where + '/again.err').read()[-600:])
        fixed = Model(case, fixed=True)
        check(case, where, 'again', fixed, fixed, only=set(bad))
        check_sums(case, where, 'again', names)
    return len(case.roots), len(got), len(bad), unsure

def main():
    if sys.argv[1:2] == ['shuffle']:
        return shuffle(*sys.argv[2:])
    a = argparse.ArgumentParser()
    a.add_argument('-s', type=int, default=1)
    a.add_argument('-n', type=int, default=1)
    a.add_argument('-k', action='store_true')
    a.add_argument('-v', action='store_true')
    a = a.parse_args()
    if not shutil.which('lx-in'):
        os.environ['PATH'] = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../build/bin:') + os.environ['PATH']
    sums, wrong = [0] * 4, 0
    for seed in range(a.s, a.s + a.n):
        bad_one = False
        where = tempfile.mkdtemp(prefix='lx-random-%d-' % seed)
        try:
            sums = [x + y for x, y in zip(sums, run_seed(seed, where, a.v))]
        except Wrong as e:
            wrong += 1; bad_one = True
            print('seed %d: %s\n  again: %s %s -k -v -s %d   %s' % (seed, str(e)[:700], sys.executable, __file__, seed, where if a.k else ''), flush=True)
        if not a.k or not bad_one:
            shutil.rmtree(where)
    print('%d pipelines: %d roots, %d present, %d not, %d either way; %d wrong' % (a.n, *sums, wrong))
    return 1 if wrong else 0

if __name__ == '__main__':
    sys.exit(main())
