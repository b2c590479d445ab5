import type { AccessRule, Application } from '@token-vault/contracts';

/** A rule while it is edited. `key` identifies the rule in the page. */
export interface DraftRule {
  readonly key: number;
  readonly description: string;
  readonly priority: string;
  readonly container: string;
  readonly transform: AccessRule['transform'];
  readonly permissions: readonly string[];
  readonly isReasonRequired: boolean;
  readonly isBreakGlass: boolean;
  readonly isDataSearchable: boolean;
}

let lastKey = 0;

export const newRule = (priority: number): DraftRule => ({
  key: ++lastKey,
  description: '',
  priority: String(priority),
  container: '/',
  transform: 'mask',
  permissions: ['token:read'],
  isReasonRequired: false,
  isBreakGlass: false,
  isDataSearchable: true,
});

export const draftsOf = (rules: Application['rules'] = []): DraftRule[] =>
  rules.map((rule) => ({
    key: ++lastKey,
    description: rule.description ?? '',
    priority: String(rule.priority),
    container: rule.container ?? '/',
    transform: rule.transform,
    permissions: rule.permissions,
    isReasonRequired: rule.reason === 'required',
    isBreakGlass: rule.break_glass ?? false,
    isDataSearchable: rule.search_data ?? true,
  }));

/** Rules as the interface takes them. Default values are left out. */
export const rulesOf = (drafts: readonly DraftRule[]): object[] =>
  drafts.map((draft) => ({
    ...(draft.description !== '' && { description: draft.description }),
    priority: Number(draft.priority),
    container: draft.container,
    transform: draft.transform,
    permissions: draft.permissions,
    ...(draft.isReasonRequired && { reason: 'required' }),
    ...(draft.isBreakGlass && { break_glass: true }),
    ...(!draft.isDataSearchable && { search_data: false }),
  }));
