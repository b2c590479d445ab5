import { sealLogOnce } from '@token-vault/audit';
import { silentLogger } from '@token-vault/observability';
import { systemClock } from '@token-vault/operations';
import type { Parts } from './parts.ts';

interface Sealed {
  /** The number of checkpoints. */
  readonly signed: number;
  /** The tenants whose log is not sealed, because it was altered. */
  readonly refused: readonly string[];
}

/** Undefined when another process is signing right now. */
export async function sealNow(
  { pool, store, keyRing, checkpointsFile }: Parts,
  { isWhole = false }: { readonly isWhole?: boolean } = {},
): Promise<Sealed | undefined> {
  const refused: string[] = [];
  const signed = await sealLogOnce({
    ...{ pool, store, keyRing: await keyRing(), clock: systemClock, logger: silentLogger },
    ...{ checkpointsFile, isWhole },
    onRefused: (tenantId) => refused.push(tenantId),
  });
  return signed === undefined ? undefined : { signed, refused };
}

export const refusalOf = (tenantId: string): string =>
  `the log of tenant ${tenantId} is not sealed any more: it was altered (vault audit verify)`;
