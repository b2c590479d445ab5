import {
  ConflictError,
  maxWebhookSecrets,
  NotFoundError,
  TenantCreated,
  TenantDeleted,
  TenantPlanChanged,
  TenantSigned,
  TenantUpdated,
  TenantWebhookSecretRotated,
  type Plan,
} from '@token-vault/contracts';
import { keyIdOf, type SealedValue } from '@token-vault/crypto';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, type TenantDetails, type TenantState } from './state.ts';

export type TenantCommand =
  | {
      readonly kind: 'create';
      readonly id: string;
      readonly name: string;
      readonly plan: Plan;
      readonly webhookSecret: SealedValue;
    }
  | {
      readonly kind: 'update';
      readonly name: string;
      readonly settings: Readonly<Record<string, string>> | undefined;
    }
  | { readonly kind: 'set-plan'; readonly plan: Plan }
  | {
      readonly kind: 'rotate-webhook-secret';
      readonly secret: SealedValue;
      /** The key of the earlier secrets is destroyed, or there were none. */
      readonly isFirstOfKey: boolean;
      /** Seconds for which the secrets that sign now go on to sign. 0: they end at once. */
      readonly overlap: number;
      readonly now: Date;
    }
  /** Signs a tenant of a release that did not sign: see `upgrade/`. */
  | { readonly kind: 'sign' }
  | { readonly kind: 'delete' };

/** @throws NotFoundError */
export function requireActive(state: TenantState): TenantDetails {
  if (state.kind !== 'active') throw new NotFoundError('The tenant');
  return state.details;
}

function rotate(
  { id, webhookSecret, earlierSecrets }: TenantDetails,
  { secret, isFirstOfKey, overlap, now }: Extract<TenantCommand, { kind: 'rotate-webhook-secret' }>,
): Fact {
  // Earlier secrets whose key is destroyed cannot be opened any more, so they cannot sign.
  if (overlap === 0 || webhookSecret === undefined || isFirstOfKey)
    return fact(TenantWebhookSecretRotated, { tenant_id: id, secret });
  const expiresAt = new Date(now.getTime() + overlap * 1000).toISOString();
  const earlier = [
    { secret: webhookSecret, expires_at: expiresAt },
    ...earlierSecrets.filter(({ expires_at: end }) => Date.parse(end) > now.getTime()),
  ];
  if (earlier.length >= maxWebhookSecrets)
    throw new ConflictError('conflict', `At most ${maxWebhookSecrets} secrets of a tenant sign at once.`);
  return fact(TenantWebhookSecretRotated, { tenant_id: id, secret, earlier });
}

function decide(state: TenantState, command: TenantCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create': {
      if (state.kind !== 'absent') return [];
      const { id, name, plan, webhookSecret } = command;
      return [
        fact(TenantCreated, { tenant_id: id, name, plan, settings: {} }),
        fact(TenantWebhookSecretRotated, { tenant_id: id, secret: webhookSecret }),
      ];
    }
    case 'update': {
      const { id, settings } = requireActive(state);
      return [
        fact(TenantUpdated, { tenant_id: id, name: command.name, settings: command.settings ?? settings }),
      ];
    }
    case 'set-plan': {
      const { id, plan } = requireActive(state);
      return plan === command.plan ? [] : [fact(TenantPlanChanged, { tenant_id: id, plan: command.plan })];
    }
    case 'rotate-webhook-secret':
      return [rotate(requireActive(state), command)];
    case 'sign': {
      const { id, signature } = requireActive(state);
      return signature === undefined ? [fact(TenantSigned, { tenant_id: id, accepts_unsigned: false })] : [];
    }
    case 'delete':
      return [fact(TenantDeleted, { tenant_id: requireActive(state).id })];
  }
}

/** The data keys that were made for the command. */
export function newKeyIds(command: TenantCommand): readonly string[] {
  if (command.kind === 'create') return [keyIdOf(command.webhookSecret)];
  return command.kind === 'rotate-webhook-secret' && command.isFirstOfKey ? [keyIdOf(command.secret)] : [];
}

export const tenantDecider: Decider<TenantState, TenantCommand> = { initialState, evolve, decide };
