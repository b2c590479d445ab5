import type { Permission } from '@token-vault/contracts';

/** The answers of the endpoints that serve the console. */

interface SignedInApplication {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly permissions: readonly Permission[];
}

export interface ConsoleSession {
  readonly id: string;
  readonly tenant: { readonly id: string; readonly name: string; readonly plan: string };
  readonly applications: readonly SignedInApplication[];
  readonly permissions: readonly Permission[];
  readonly is_operator: boolean;
  readonly expires_at: string;
  readonly idle_expires_at: string;
}

export interface Overview {
  readonly at: string;
  readonly rates: {
    readonly seconds: number;
    readonly requests: number;
    readonly reveals: number;
    readonly appends: number;
  };
  readonly runs_waiting: number;
  readonly projections: readonly {
    readonly name: string;
    readonly status: string;
    readonly behind: number;
    readonly stalled_seconds: number;
  }[];
  readonly audit: {
    readonly checkpoint?: { readonly signed_at: string; readonly through: string; readonly events: number };
    readonly unsigned_events: number;
  };
  readonly last_hour: readonly {
    readonly entity_type: string;
    readonly operation: string;
    readonly count: number;
  }[];
}
