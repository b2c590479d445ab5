import { authorOf, signatureOf, tenantStatement, type Plan } from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import type { RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

export interface TenantDetails {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
  /** Signed with the rest, and nothing is decided by it: the keys of the tenant tell (ADR 20). */
  readonly acceptsUnsigned: boolean;
  /** Of what is decided by; undefined in a log that an older release wrote. */
  readonly signature: string | undefined;
  /** Some event of it has a signature: an upgrade has nothing to sign here. */
  readonly wasSigned: boolean;
  /** Signs webhooks (rules.md §10). */
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
      if (state.kind !== 'absent') return state;
      const { tenant_id: id, name, plan, settings } = event.data;
      const createdAt = event.metadata.occurred_at;
      const signature = signatureOf(event);
      const signed = { acceptsUnsigned: false, signature, wasSigned: signature !== undefined };
      const unset = { webhookSecret: undefined, modifiedAt: undefined, modifiedBy: undefined };
      return { kind: 'active', details: { id, name, plan, settings, createdAt, ...signed, ...unset } };
    }
    case 'TenantUpdated': {
      const { name, settings } = event.data;
      return modified(state, event, { name, settings, signature: signatureOf(event) });
    }
    case 'TenantPlanChanged':
      return modified(state, event, {
        plan: event.data.plan,
        signature: signatureOf(event),
      });
    case 'TenantSigned': {
      if (state.kind !== 'active') return state;
      const { accepts_unsigned: acceptsUnsigned } = event.data;
      const signature = signatureOf(event);
      const wasSigned = state.details.wasSigned || signature !== undefined;
      const details = { ...state.details, acceptsUnsigned, signature, wasSigned };
      return { kind: 'active', details };
    }
    case 'TenantWebhookSecretRotated': {
      if (state.kind !== 'active') return state;
      const { secret } = event.data;
      return { kind: 'active', details: { ...state.details, webhookSecret: secret as SealedValue } };
    }
    case 'TenantDeleted':
      return { kind: 'deleted' };
    default:
      return state;
  }
}

export const tenantSigner: Signer<TenantState> = {
  statementOf: (state) => (state.kind === 'active' ? tenantStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
};
