import type { KeyRing } from '@token-vault/crypto';
import type { EventStore } from '@token-vault/event-store';
import type { AuditTrail, Clock, Logger } from '@token-vault/service-kit';

/** What command handlers are given. */
export interface CommandDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly audit: AuditTrail;
  readonly clock: Clock;
  readonly logger: Logger;
}
