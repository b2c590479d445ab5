import type { RecordedEvent } from '@token-vault/event-store';
import type { Projection } from '../projection.ts';

/** Events of accesses and runs. No awaited read model shows them. */
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
 * Whether an event may reach a read model later, together with the next write. Each batch costs a commit in several
 * read models.
 */
export const delayableEventsOf = ({
  isAwaited,
}: Pick<Projection, 'isAwaited'>): ((event: RecordedEvent) => boolean) =>
  isAwaited === false ? () => true : isUnawaited;
