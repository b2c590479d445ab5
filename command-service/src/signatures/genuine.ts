import type { Statement } from '@token-vault/contracts';
import type { TenantHashes } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import { hasGenuineIndexes } from '../tokens/signed.ts';
import type { Fold } from './folds.ts';

export const textOf = (event: RecordedEvent): string | undefined => {
  const { signature } = event.data as { readonly signature?: unknown };
  return typeof signature === 'string' ? signature : undefined;
};

/** Data without the form of its type gives no statement. */
function statementsOf(fold: Fold, event: RecordedEvent): readonly Statement[] {
  try {
    return fold.statementsAfter(event);
  } catch {
    return [];
  }
}

/** Whether the vault signed the event, behind the events that the fold has. */
export function isGenuine(event: RecordedEvent, hashes: TenantHashes, fold: Fold): boolean {
  const signature = textOf(event);
  if (signature === undefined || !hasGenuineIndexes(event, hashes)) return false;
  return statementsOf(fold, event).some((statement) => hashes.matches(statement, signature));
}

/** Whether the fold can tell that the vault did not sign the event. The vault signs no data without the form of its type. */
export function canJudge(event: RecordedEvent, fold: Fold): boolean {
  try {
    return fold.canJudge(event);
  } catch {
    return true;
  }
}
