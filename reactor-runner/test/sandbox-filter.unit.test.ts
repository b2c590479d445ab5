import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { systemCallFilter } from '../src/sandbox/system-call-filter.ts';
import { systemCalls } from '../src/sandbox/system-calls.ts';

const architectures = { x64: 0xc000003e, arm64: 0xc00000b7 } as const;
type Architecture = keyof typeof architectures;
const i386 = 0x40000003;

interface Call {
  readonly number: number;
  readonly args?: readonly number[];
  readonly numbering?: number;
}

/** Runs the filter as the kernel does: an accumulator, forward jumps, a result. */
function judge(architecture: Architecture, { number, args = [], numbering }: Call): string {
  const program = systemCallFilter(architecture) ?? Buffer.alloc(0);
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(numbering ?? architectures[architecture], 4);
  args.forEach((argument, index) => data.writeBigUInt64LE(BigInt(argument), 16 + 8 * index));
  let accumulator = 0;
  for (let at = 0; at < program.length; at += 8) {
    const operand = program.readUInt32LE(at + 4);
    switch (program.readUInt16LE(at)) {
      case 0x20:
        accumulator = data.readUInt32LE(operand);
        break;
      case 0x54:
        accumulator = (accumulator & operand) >>> 0;
        break;
      case 0x15:
        at += 8 * program.readUInt8(at + (accumulator === operand ? 2 : 3));
        break;
      case 0x06:
        return { 0x7fff0000: 'allowed', 0x80000000: 'killed', 0x00050026: 'ENOSYS' }[operand] ?? 'unknown';
      default:
        return 'no instruction';
    }
  }
  return 'no answer';
}

const numberOf = (architecture: Architecture, name: string): number =>
  systemCalls.find((call) => call.name === name)?.[architecture] ?? -1;

describe.each(['x64', 'arm64'] as const)('the filter of system calls on %s', (architecture) => {
  it('allows the calls of the table, and no others', () => {
    const inTable = new Set(systemCalls.filter(({ onlyIf }) => !onlyIf).map((call) => call[architecture]));
    const allowed = Array.from({ length: 1_024 }, (_, number) => number).filter(
      (number) => judge(architecture, { number }) === 'allowed',
    );
    expect(allowed).toEqual([...inTable].filter((number) => number !== undefined).sort((a, b) => a - b));
  });

  it('ends a process that uses the call numbers of another architecture, and allows none of x32', () => {
    const read = { number: numberOf(architecture, 'read') };
    expect(judge(architecture, read)).toBe('allowed');
    expect(judge(architecture, { ...read, numbering: i386 })).toBe('killed');
    expect(judge(architecture, { number: read.number + 0x40000000 })).toBe('ENOSYS');
  });

  it('lets a child make threads, and neither processes nor namespaces', () => {
    const number = numberOf(architecture, 'clone');
    const thread = 0x3d0f00;
    expect(judge(architecture, { number, args: [thread] })).toBe('allowed');
    expect(judge(architecture, { number, args: [17] })).toBe('ENOSYS');
    for (const namespace of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
      expect(judge(architecture, { number, args: [thread | namespace] })).toBe('ENOSYS');
  });

  it('lets a child name its threads, and set its streams, and no more of prctl and ioctl', () => {
    const prctl = (option: number) =>
      judge(architecture, { number: numberOf(architecture, 'prctl'), args: [option] });
    const ioctl = (request: number) =>
      judge(architecture, { number: numberOf(architecture, 'ioctl'), args: [3, request] });
    expect([prctl(15), prctl(0x53564d41), prctl(4), prctl(22)]).toEqual([
      'allowed',
      'allowed',
      'ENOSYS',
      'ENOSYS',
    ]);
    expect([ioctl(0x5421), ioctl(0x5412), ioctl(0x5421 + 2 ** 16)]).toEqual(['allowed', 'ENOSYS', 'ENOSYS']);
  });
});

describe('the filter of system calls', () => {
  it('is absent on architectures without a table of numbers', () => {
    expect(systemCallFilter('riscv64')).toBeUndefined();
  });

  const headers = {
    x64: '/usr/include/x86_64-linux-gnu/asm/unistd_64.h',
    arm64: '/usr/include/asm-generic/unistd.h',
  };
  it.each(['x64', 'arm64'] as const)(
    'has the numbers of the headers of the kernel for %s',
    (architecture) => {
      const file = headers[architecture];
      // Only where the headers are installed: CI's Debian has them with the C compiler.
      if (!existsSync(file)) return;
      const lines = readFileSync(file, 'utf8').matchAll(/^#define __NR(?:3264)?_(\w+) (\d+)$/gm);
      const official = new Map([...lines].map(([, name, number]) => [name, Number(number)]));
      const ours = systemCalls.filter((call) => call[architecture] !== undefined);
      const wrong = ours.filter(({ name, [architecture]: number }) => {
        // The common header uses the older names of these calls.
        const names = [name, name === 'newfstatat' ? 'fstatat' : name];
        return !names.some((each) => official.get(each) === number);
      });
      expect(wrong.map(({ name }) => name)).toEqual([]);
    },
  );
});
