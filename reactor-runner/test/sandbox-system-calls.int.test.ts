import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allWalls, canIntrude, intrude } from './sandbox-intruder.ts';
import { createTestPool, handler, type TestPool } from './sandbox-pool-fixture.ts';

/** Name, number on x64 and on arm64, arguments. Every family that issue 18 A6 names, and related calls. */
const attempts: readonly (readonly [string, number, number, ...number[]])[] = [
  ['process_vm_readv', 310, 270, 1, 0, 0, 0, 0, 0],
  ['process_vm_writev', 311, 271, 1, 0, 0, 0, 0, 0],
  ['pidfd_open', 434, 434, 1, 0],
  ['pidfd_getfd', 438, 438, 3, 3, 0],
  ['kcmp', 312, 272, 1, 1, 0, 3, 3],
  ['io_uring_setup', 425, 425, 1, 0],
  ['bpf', 321, 280, 0, 0, 0],
  ['perf_event_open', 298, 241, 0, 0, -1, -1, 0],
  ['userfaultfd', 323, 282, 1],
  ['keyctl', 250, 219, 0, -3, 1],
  ['add_key', 248, 217, 0, 0, 0, 0, -3],
  ['mount', 165, 40, 0, 0, 0, 0, 0],
  ['umount2', 166, 39, 0, 0],
  ['pivot_root', 155, 41, 0, 0],
  ['chroot', 161, 51, 0],
  ['open_tree', 428, 428, -100, 0, 0],
  ['fsopen', 430, 430, 0, 0],
  ['open_by_handle_at', 304, 265, 3, 0, 0],
  ['unshare', 272, 97, 0x10000000],
  ['setns', 308, 268, 3, 0],
  ['clone3', 435, 435, 0, 0],
  ['clone of a process', 56, 220, 17, 0, 0, 0, 0],
  ['clone of a user namespace', 56, 220, 0x10000011, 0, 0, 0, 0],
  ['kexec_load', 246, 104, 0, 0, 0, 0],
  ['init_module', 175, 105, 0, 0, 0],
  ['finit_module', 313, 273, 3, 0, 0],
  ['socket', 41, 198, 1, 1, 0],
  ['connect', 42, 203, 3, 0, 0],
  ['sendmsg', 46, 211, 3, 0, 0],
  ['memfd_create', 319, 279, 0, 0],
  ['personality', 135, 92, 0xffffffff],
  ['seccomp', 317, 277, 3, 0, 0],
  ['setuid', 105, 146, 0],
  ['kill of the group that the service is in', 62, 129, 0, 0],
  ['mmap of shared memory', 9, 222, 0, 4096, 3, 0x21, -1, 0],
  ['mmap of a stack', 9, 222, 0, 4096, 3, 0x122, -1, 0],
  ['prctl that makes it dumpable', 157, 167, 4, 1, 0, 0, 0],
  ['ioctl that types for a terminal', 16, 29, 3, 0x5412, 0],
  ['getdents64', 217, 61, 3, 0, 0],
  // Last, because a traced process stops at its next signal.
  ['ptrace', 101, 117, 0, 0, 0, 0],
];

const enosys = 38;
const numberOf = (x64: number, arm64: number): number => (process.arch === 'x64' ? x64 : arm64);

/** The error number of each attempt; 0 when it succeeded. */
async function errorsOf(walls = allWalls): Promise<Record<string, number>> {
  const exitGroup = numberOf(231, 94);
  const calls = attempts.map(
    ([name, x64, arm64, ...args]) => `['${name}', ${[numberOf(x64, arm64), ...args].join(', ')}]`,
  );
  // A clone returns twice: the new process gets 0 and exits. No other call here returns 0 and is a clone.
  const said = await intrude(
    `open(my $out, '>&=3'); $| = 1; for my $call (${calls.join(', ')}) { my ($name, @call) = @$call;
      $! = 0; my $result = syscall($call[0], @call[1 .. $#call]); my $error = $! + 0;
      syscall(${exitGroup}, 0) if $result == 0 && $name =~ /^clone of/;
      syswrite($out, "$name=" . ($result == -1 ? $error : 0) . "\\n"); }`,
    walls,
  );
  const lines = said.trim().split('\n');
  return Object.fromEntries(lines.map((line) => [line.split('=')[0] ?? '', Number(line.split('=')[1])]));
}

/** The missing walls. Undefined when all walls exist on this host. */
async function whatIsMissing(pool: TestPool): Promise<string | undefined> {
  const { walls } = pool.pool.stats();
  const missing = Object.entries(walls).filter(([, stands]) => !stands);
  return missing.length === 0 ? undefined : `this host lacks ${missing.map(([name]) => name).join(', ')}`;
}

describe.runIf(canIntrude)('code outside its isolate and Node', () => {
  let pool: TestPool;
  let directory: string;
  let missing: string | undefined;
  beforeAll(async () => {
    pool = await createTestPool({ spares: 0 });
    missing = await whatIsMissing(pool);
    directory = await mkdtemp(path.join(tmpdir(), 'token-vault-test-walls-'));
  });
  afterAll(async () => {
    await pool.close();
    await rm(directory, { recursive: true });
  });

  it('can make no system call that a child does not need', async ({ skip }) => {
    if (missing !== undefined) skip(missing);
    const errors = await errorsOf();
    expect(errors).toEqual(Object.fromEntries(attempts.map(([name]) => [name, enosys])));
  });

  it('could make them without the filter', async ({ skip }) => {
    if (missing !== undefined) skip(missing);
    const errors = await errorsOf({ ...allWalls, systemCallFilter: false });
    expect(Object.keys(errors)).toHaveLength(attempts.length);
    const succeeded = Object.keys(errors).filter((name) => errors[name] === 0);
    expect(succeeded).toEqual(expect.arrayContaining(['ptrace', 'process_vm_readv', 'unshare', 'socket']));
    expect(Object.values(errors).filter((error) => error === enosys).length).toBeLessThan(5);
  });

  it.skipIf(process.getuid?.() !== 0)(
    'cannot fill the host with processes, also without the filter and bubblewrap',
    async ({ skip }) => {
      if (missing !== undefined) skip(missing);
      // The processes that the child could start sleep until it ends, and end with it: it is the first of its
      // namespace.
      const bomb = `open(my $out, '>&=3'); my $made = 0;
      for (1 .. 200) { my $pid = fork(); last unless defined $pid; if ($pid == 0) { close($out); sleep 60; exit; } $made++; }
      print $out $made;`;
      const withoutFilter = { ...allWalls, systemCallFilter: false };
      expect(await intrude(bomb)).toBe('0');
      for (const walls of [withoutFilter, { ...withoutFilter, ownFiles: false }]) {
        const made = Number(await intrude(bomb, walls));
        expect(made).toBeGreaterThan(0);
        expect(made).toBeLessThan(50);
      }
    },
  );

  it('cannot read the data directory, or any file of the host, nor write one', async ({ skip }) => {
    if (missing !== undefined) skip(missing);
    // Readable for everyone, so that it is not its mode that protects the file.
    const secret = path.join(directory, 'root.key');
    await writeFile(secret, 'the root key', { mode: 0o644 });
    // Kernel files that give information about the host. Writing to the last one changes the priority of all
    // processes of the service's session.
    const ofKernel = ['/proc/cmdline', '/proc/diskstats', '/proc/self/autogroup'];
    const files = [secret, '/etc/passwd', '/usr/bin/setpriv', ...ofKernel];
    const code = `open(my $out, '>&=3'); for my $file (${files.map((file) => `'${file}'`).join(', ')}) {
        print $out "$file " . (open(my $in, '<', $file) ? 'read' : 'absent') . "\\n"; }
      print $out 'write ' . (open(my $in, '>', '/x') ? 'done' : 'refused');`;
    const absent = [...files.map((file) => `${file} absent`), 'write refused'].join('\n');
    expect(await intrude(code)).toBe(absent);
    const withoutFilter = { ...allWalls, systemCallFilter: false };
    expect(await intrude(code, withoutFilter)).toBe(absent);
    // The same program behind the other walls finds all of it.
    const open = await intrude(code, { ...withoutFilter, ownFiles: false });
    expect(open).toContain('/etc/passwd read');
    expect(open).toContain('/usr/bin/setpriv read');
  });

  it('finds no other child, by number or by name', async ({ skip }) => {
    if (missing !== undefined) skip(missing);
    await pool.run(handler('return { raw: 1 };'));
    const [neighbour = 0] = pool.pool.stats().pids;
    const code = `open(my $out, '>&=3');
      print $out ((open(my $in, '<', '/proc/${neighbour}/mem') ? 'open' : 'absent') . "\\n");
      print $out (kill(0, ${neighbour}) ? 'there' : 'absent');`;
    expect(await intrude(code)).toBe('absent\nabsent');
    // The filter does not allow to list a directory, so this program runs without it and shows the processes that the
    // other walls leave visible.
    const list = `open(my $out, '>&=3'); opendir(my $proc, '/proc');
      print $out join(' ', grep { /^\\d+$/ } readdir($proc));`;
    expect(await intrude(list, { ...allWalls, systemCallFilter: false })).toBe('');
    expect(await intrude(list, { ...allWalls, systemCallFilter: false, ownFiles: false })).toBe('1');
  });
});
