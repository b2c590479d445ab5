import type { AllStreamResolvedEvent, ResolvedEvent } from '@eventstore/db-client';

/** An event as the client gives it, of the vault or of others. */
export type ServerEvent = NonNullable<ResolvedEvent['event'] | AllStreamResolvedEvent['event']>;

/** System events begin with `$`, in whichever stream they are: metadata, tombstones, links, statistics. */
export function isSystemEvent({ type, streamId }: ServerEvent): boolean {
  return type.startsWith('$') || streamId.startsWith('$');
}
