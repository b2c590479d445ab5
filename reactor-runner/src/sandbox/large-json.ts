import { threadShares } from '@token-vault/batching';

/** Parsing shorter texts takes less than a millisecond. */
const largeChars = 16 * 1024;
/** To parse, seal, record, read and send 380 KB of small values takes about eight times as long as to parse and check them. */
const timesAsLong = 8;

/** Parses a text that guest code has written within its tenant's share of the thread. `parse` throws what this rejects with. */
export async function parseInTurn<Result>(
  tenantId: string,
  chars: number,
  parse: () => Result,
): Promise<Result> {
  return chars < largeChars ? parse() : threadShares.run(tenantId, parse, { timesAsLong });
}
