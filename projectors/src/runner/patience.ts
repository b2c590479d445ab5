import type { RecordedEvent } from '@token-vault/event-store';

/** Accesses, whose answers name no position to wait for; and the middle of a run, of which the end is waited for. */
const unawaited = new Set<string>([
  'TokensRead',
  'TokensExported',
  'EntitiesRead',
  'AccessDenied',
  'AuthenticationFailed',
  'ReactorStarted',
]);

/**
 * Whether nobody waits to see an event in the read models. Each batch costs a commit in several of them, so these may come
 * with what is written next.
 */
export const canWait = ({ type, data }: RecordedEvent): boolean =>
  unawaited.has(type) || (type === 'ReactorInvoked' && (data as { mode?: unknown }).mode === 'sync');
