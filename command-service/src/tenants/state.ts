import {
  authorOf,
  type Plan,
  signatureOf,
  type tenantEvents,
  tenantStatement,
  type TypeIn,
} from '@token-vault/contracts';
import type { SealedValue } from '@token-vault/crypto';
import { evolveBy, type RecordedEvent } from '@token-vault/event-store';
import type { Signer } from '../aggregates/signing.ts';

export interface TenantDetails {
  readonly id: string;
  readonly name: string;
  readonly plan: Plan;
  readonly settings: Readonly<Record<string, string>>;
  /** Signed with the other fields, but no decision depends on it: the keys of the tenant hold the answer (ADR 20). */
  readonly acceptsUnsigned: boolean;
  /** The signature of the fields that decisions depend on. Undefined in a log that an older release wrote. */
  readonly signature: string | undefined;
  /** An event of the tenant has a signature, so the upgrade has nothing to sign here. */
  readonly wasSigned: boolean;
  /** Signs webhooks (rules.md §10). */
  readonly webhookSecret: SealedValue | undefined;
  /** They sign too until they expire. */
  readonly earlierSecrets: readonly { readonly secret: SealedValue; readonly expires_at: string }[];
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

export const evolve = evolveBy<TenantState, TypeIn<typeof tenantEvents>>({
  TenantCreated(state, event) {
    if (state.kind !== 'absent') return state;
    const { tenant_id: id, name, plan, settings } = event.data;
    const createdAt = event.metadata.occurred_at;
    const signature = signatureOf(event);
    const signed = { acceptsUnsigned: false, signature, wasSigned: signature !== undefined };
    const unset = {
      webhookSecret: undefined,
      earlierSecrets: [],
      modifiedAt: undefined,
      modifiedBy: undefined,
    };
    return { kind: 'active', details: { id, name, plan, settings, createdAt, ...signed, ...unset } };
  },
  TenantUpdated(state, event) {
    const { name, settings } = event.data;
    return modified(state, event, { name, settings, signature: signatureOf(event) });
  },
  TenantPlanChanged: (state, event) =>
    modified(state, event, { plan: event.data.plan, signature: signatureOf(event) }),
  TenantSigned(state, event) {
    if (state.kind !== 'active') return state;
    const { accepts_unsigned: acceptsUnsigned } = event.data;
    const signature = signatureOf(event);
    const wasSigned = state.details.wasSigned || signature !== undefined;
    return { kind: 'active', details: { ...state.details, acceptsUnsigned, signature, wasSigned } };
  },
  TenantWebhookSecretRotated(state, event) {
    if (state.kind !== 'active') return state;
    const { secret: webhookSecret, earlier: earlierSecrets = [] } = event.data;
    return { kind: 'active', details: { ...state.details, webhookSecret, earlierSecrets } };
  },
  TenantDeleted: () => ({ kind: 'deleted' }),
});

export const tenantSigner: Signer<TenantState> = {
  statementOf: (state) => (state.kind === 'active' ? tenantStatement(state.details) : undefined),
  signatureOf: (state) => (state.kind === 'active' ? state.details.signature : undefined),
};
