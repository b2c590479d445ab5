import { authorOf, type DataOf, type Plan } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';

export interface TenantDetails {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
  /** Signs webhooks (decisions.md §10). */
  readonly webhookSecret: SealedValue | undefined;
  readonly createdAt: string;
  readonly modifiedAt: string | undefined;
  readonly modifiedBy: string | undefined;
}

export type TenantState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'deleted' }
  | { readonly kind: 'active'; readonly details: TenantDetails };

export const initialState: TenantState = { kind: 'absent' };

function modified(state: TenantState, event: RecordedEvent, changes: Partial<TenantDetails>): TenantState {
  if (state.kind !== 'active') return state;
  const { occurred_at: modifiedAt } = event.metadata;
  return {
    kind: 'active',
    details: { ...state.details, ...changes, modifiedAt, modifiedBy: authorOf(event.metadata) },
  };
}

export function evolve(state: TenantState, event: RecordedEvent): TenantState {
  switch (event.type) {
    case 'TenantCreated': {
      const { tenant_id: id, name, plan, settings } = event.data as unknown as DataOf<'TenantCreated'>;
      const createdAt = event.metadata.occurred_at;
      const unset = { webhookSecret: undefined, modifiedAt: undefined, modifiedBy: undefined };
      return { kind: 'active', details: { id, name, plan, settings, createdAt, ...unset } };
    }
    case 'TenantUpdated': {
      const { name, settings } = event.data as unknown as DataOf<'TenantUpdated'>;
      return modified(state, event, { name, settings });
    }
    case 'TenantPlanChanged':
      return modified(state, event, { plan: (event.data as unknown as DataOf<'TenantPlanChanged'>).plan });
    case 'TenantWebhookSecretRotated': {
      if (state.kind !== 'active') return state;
      const { secret } = event.data as unknown as DataOf<'TenantWebhookSecretRotated'>;
      return { kind: 'active', details: { ...state.details, webhookSecret: secret as SealedValue } };
    }
    case 'TenantDeleted':
      return { kind: 'deleted' };
    default:
      return state;
  }
}
