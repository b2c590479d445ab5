import { systemCalls, type ArgumentTest } from './system-calls.ts';

/** linux/audit.h: how the kernel names the numbering that a call belongs to. */
const architectures: Readonly<Record<string, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** linux/seccomp.h: what becomes of a call. libc does without what does not exist, and tries older calls. */
const allowed = 0x7fff0000;
const killed = 0x80000000;
const enosys = 38;
const doesNotExist = 0x00050000 | enosys;

/** Where `struct seccomp_data` has it. Of an argument the lower half: both architectures are little-endian. */
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
 * The filter of a child, as the kernel reads it. A call that is not in the table does not exist; one by the numbers of another
 * architecture ends the process. Those of x32 have a bit that no number of the table has.
 * @returns undefined where we do not have the numbers
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

/** Goes on behind it with the number of the call still at hand: the argument is loaded only when the call is this one. */
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
