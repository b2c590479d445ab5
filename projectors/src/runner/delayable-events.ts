import type { RecordedEvent } from '@token-vault/event-store';
import type { Projection } from '../projection.ts';

/** Accesses and runs: they show in no read model that anybody waits for. */
const unawaited = new Set<string>([
  'TokensRead',
  'TokensExported',
  'EntitiesRead',
  'AccessDenied',
  'AuthenticationFailed',
  'ReactorInvoked',
  'ReactorStarted',
  'ReactorSucceeded',
  'ReactorFailed',
]);

const isUnawaited = ({ type }: RecordedEvent): boolean => unawaited.has(type);

/**
 * Which events may come to a read model a little later, with what is written next: each batch costs a commit in several of
 * them.
 */
export const delayableEventsOf = ({
  isAwaited,
}: Pick<Projection, 'isAwaited'>): ((event: RecordedEvent) => boolean) =>
  isAwaited === false ? () => true : isUnawaited;
