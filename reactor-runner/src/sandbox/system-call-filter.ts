import { systemCalls, type ArgumentTest } from './system-calls.ts';

/** linux/audit.h: the kernel's constants for the numbering of system calls. */
const architectures: Readonly<Record<string, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/**
 * linux/seccomp.h: the kernel's action for a call. libc continues without calls that do not exist, and tries older
 * ones.
 */
const allowed = 0x7fff0000;
const killed = 0x80000000;
const enosys = 38;
const doesNotExist = 0x00050000 | enosys;

/**
 * Offsets in `struct seccomp_data`. Of an argument only the lower half is read: both architectures are little-endian.
 */
const numberOffset = 0;
const architectureOffset = 4;
const argumentOffset = (index: number): number => 16 + 8 * index;

/** One instruction of classic BPF (linux/filter.h): operation, instructions to skip if true and if false, operand. */
type Instruction = readonly [operation: number, ifTrue: number, ifFalse: number, operand: number];

const load = (offset: number): Instruction => [0x20, 0, 0, offset];
const and = (mask: number): Instruction => [0x54, 0, 0, mask];
const skipIf = (value: number, count: number): Instruction => [0x15, count, 0, value];
const skipUnless = (value: number, count: number): Instruction => [0x15, 0, count, value];
const end = (action: number): Instruction => [0x06, 0, 0, action];

/**
 * The filter of a child, in the kernel's format. A call that is not in the table does not exist. A call by the
 * numbers of another architecture ends the process. Calls of x32 have a bit that no number of the table has.
 * @returns undefined for an architecture without numbers in the table
 */
export function systemCallFilter(architecture: string): Buffer | undefined {
  const own = architectures[architecture];
  if (own === undefined) return undefined;
  const rules = systemCalls.flatMap((call) => {
    const number = architecture === 'x64' ? call.x64 : call.arm64;
    return number === undefined ? [] : allow(number, call.onlyIf);
  });
  return encode([
    load(architectureOffset),
    skipIf(own, 1),
    end(killed),
    load(numberOffset),
    ...rules,
    end(doesNotExist),
  ]);
}

/**
 * When the call is another one, the filter continues with the number still loaded: the argument is loaded only for
 * this call.
 */
function allow(number: number, onlyIf?: readonly ArgumentTest[]): Instruction[] {
  if (onlyIf === undefined) return [skipUnless(number, 1), end(allowed)];
  const tests = onlyIf.flatMap(({ argument, mask, equals }) => [
    load(argumentOffset(argument)),
    and(mask),
    skipUnless(equals, 1),
    end(allowed),
  ]);
  return [skipUnless(number, tests.length + 1), ...tests, end(doesNotExist)];
}

function encode(instructions: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(instructions.length * 8);
  instructions.forEach(([operation, ifTrue, ifFalse, operand], index) => {
    bytes.writeUInt16LE(operation, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(operand, index * 8 + 4);
  });
  return bytes;
}
