import type { Permission, Transform } from '@token-vault/contracts';

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

interface Failed {
  readonly code: string;
  readonly event_id?: string;
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
    readonly unsigned_entries: number;
  };
  readonly last_hour: readonly {
    readonly entity_type: string;
    readonly operation: string;
    readonly count: number;
  }[];
}

export interface Projection {
  readonly name: string;
  readonly version: number;
  readonly status: string;
  readonly position: string;
  readonly behind: number;
  readonly stalled_seconds: number;
  readonly updated_at: string;
  readonly error?: Failed;
  readonly rebuild?: {
    readonly purpose: string;
    readonly status: string;
    readonly position: string;
    readonly progress: number;
    readonly started_at: string;
    readonly error?: Failed;
  };
}

export interface OperationsState {
  readonly at: string;
  readonly release: string;
  readonly head: string;
  readonly projections: readonly Projection[];
  readonly keys: {
    readonly root_keys: number;
    readonly is_root_rotating: boolean;
    readonly tenants: number;
    readonly tenants_rotating: number;
  };
  readonly housekeeping: readonly { readonly task: string; readonly updated_at: string }[];
  readonly settings: readonly { readonly name: string; readonly value: string }[];
}

export type ShownAs = Transform | 'none';

export interface AccessPage {
  readonly containers: readonly string[];
  readonly more_containers: boolean;
  readonly pagination: { total_items: number; page_number: number; page_size: number; total_pages: number };
  readonly data: readonly {
    readonly id: string;
    readonly name: string;
    readonly type: string;
    readonly access: readonly { readonly transform: ShownAs; readonly with_reason?: ShownAs }[];
  }[];
}

export interface Explanation {
  readonly application: { readonly id: string; readonly name: string; readonly type: string };
  readonly token: { readonly id: string; readonly type: string; readonly containers: readonly string[] };
  readonly operations: readonly {
    readonly permission: string;
    readonly transform: ShownAs;
    readonly with_reason?: ShownAs;
    readonly by: 'rule' | 'permissions' | 'nothing';
    readonly rule?: { readonly priority: number; readonly description?: string; readonly container?: string };
  }[];
}
