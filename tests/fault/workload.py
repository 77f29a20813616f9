# SPDX-License-Identifier: Apache-2.0
"""What the torture runs inside a sandbox: a program that writes checksummed lines all the time, and one that checks them."""

# Appends "<number> <sha256 of the number>", and says each number that is written: from then on it may not be lost. Goes on
# where a former run has stopped; a line that the end of that run tore was never said. Only one at a time: a start whose
# answer was lost may have happened.
WRITER = r"""
import fcntl, hashlib, os, sys, time
home = '/home/user/'
lock = open(home + 'lock', 'w')
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
out = open(home + 'lines', 'a+b', buffering=0)
out.seek(0)
whole = out.read()
whole = whole[:whole.rfind(b'\n') + 1]
out.truncate(len(whole))
number = whole.count(b'\n')
del whole
with open(home + 'pid.new', 'w') as file:
    file.write(str(os.getpid()))
os.rename(home + 'pid.new', home + 'pid')
while True:
    number += 1
    out.write(b'%d %s\n' % (number, hashlib.sha256(b'%d' % number).hexdigest().encode()))
    if number % 50 == 0:
        os.fsync(out.fileno())
    os.write(1, b'%d\n' % number)
    time.sleep(0.004)
"""

# check.py OFFSET NUMBER: reads on from a place that was right before, and prints one line of JSON.
CHECKER = r"""
import hashlib, json, os, sys, time
home, offset, number, bad = '/home/user/', int(sys.argv[1]), int(sys.argv[2]), None
new = offset == 0 and not os.path.exists(home + 'lines')  # the writer has not begun
with open(os.devnull if new else home + 'lines', 'rb') as lines:
    lines.seek(offset)
    for line in lines:
        if not line.endswith(b'\n'):
            break
        number += 1
        if line != b'%d %s\n' % (number, hashlib.sha256(b'%d' % number).hexdigest().encode()):
            bad = 'line %d is %r' % (number, line[:90])
            break
        offset += len(line)
try:
    pid = int(open(home + 'pid').read())
    alive = b'writer.py' in open('/proc/%d/cmdline' % pid, 'rb').read()
except (OSError, ValueError):
    pid, alive = 0, False
print(json.dumps({'offset': offset, 'number': number, 'bad': bad, 'pid': pid, 'alive': alive, 'time': time.time(),
                  'boot': open('/proc/sys/kernel/random/boot_id').read().strip(),
                  'environment': os.environ.get('COLOUR')}))
"""
