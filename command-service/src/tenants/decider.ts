import {
  NotFoundError,
  TenantCreated,
  TenantDeleted,
  TenantPlanChanged,
  TenantUpdated,
  type Plan,
} from '@token-vault/contracts';
import { fact, type Decider, type Fact } from '../aggregates/decider.ts';
import { evolve, initialState, type TenantDetails, type TenantState } from './state.ts';

export type TenantCommand =
  | { readonly kind: 'create'; readonly id: string; readonly name: string; readonly plan: Plan }
  | {
      readonly kind: 'update';
      readonly name: string;
      readonly settings: Readonly<Record<string, string>> | undefined;
    }
  | { readonly kind: 'set-plan'; readonly plan: Plan }
  | { readonly kind: 'delete' };

function requireActive(state: TenantState): TenantDetails {
  if (state.kind !== 'active') throw new NotFoundError('The tenant');
  return state.details;
}

function decide(state: TenantState, command: TenantCommand): readonly Fact[] {
  switch (command.kind) {
    case 'create': {
      if (state.kind !== 'absent') return [];
      const { id, name, plan } = command;
      return [fact(TenantCreated, { tenant_id: id, name, plan, settings: {} })];
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
    case 'delete':
      return [fact(TenantDeleted, { tenant_id: requireActive(state).id })];
  }
}

export const tenantDecider: Decider<TenantState, TenantCommand> = { initialState, evolve, decide };
