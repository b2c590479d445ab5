import { threadShares } from '@token-vault/batching';

/** Parsing shorter texts takes less than a millisecond. */
const largeChars = 16 * 1024;
/** To parse, seal, record, read and send 380 KB of small values takes about eight times as long as to parse and check them. */
const timesAsLong = 8;

/** Parses a text of guest code within the share of the thread that its tenant has. @throws the error of `parse` */
export async function parseInTurn<Result>(
  tenantId: string,
  chars: number,
  parse: () => Result,
): Promise<Result> {
  return chars < largeChars ? parse() : threadShares.run(tenantId, parse, { timesAsLong });
}
