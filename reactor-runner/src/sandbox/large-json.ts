import { threadShares, type Holder } from '@token-vault/batching';

/** Parsing shorter texts takes less than a millisecond. */
const largeChars = 16 * 1024;
/** To parse, seal, record, read and send 380 KB of small values takes about eight times as long as to parse and check them. */
const timesAsLong = 8;
/**
 * Together with Postgres and with the sandbox, it takes about a millisecond of the processors for this number of characters: 76 ms for 380 KB.
 */
const charsOfMs = 5 * 1024;

/** Parses a text of guest code within the share of the thread that its tenant has. @throws the error of `parse`, and the reason of `signal` */
export async function parseInTurn<Result>(
  holder: Holder,
  chars: number,
  parse: () => Result,
  signal?: AbortSignal,
): Promise<Result> {
  return chars < largeChars
    ? parse()
    : threadShares.run(holder, parse, { timesAsLong, besideOthersMs: chars / charsOfMs }, signal);
}
