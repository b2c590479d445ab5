import { z } from 'zod';
import { permissionName, transforms } from '../permissions.ts';
import { optional, text } from '../text.ts';

/** Container paths: lower-cased, `^/([a-z0-9_-]+/)*$` (rules.md §3). */
export const containerPath = text(1, 400)
  .regex(/^\/([A-Za-z0-9_-]+\/)*$/, 'must be a path such as /pci/high/')
  .toLowerCase();

export const accessRuleCondition = z.object({
  attribute: z.enum(['id', 'container']),
  operator: z.enum(['starts_with', 'equals']),
  value: text(1, 400),
});
export type AccessRuleCondition = z.infer<typeof accessRuleCondition>;

/** The values of `reason` in a rule. */
export const reasonDemands = ['required'] as const;

export const accessRule = z.object({
  description: optional(text(0, 1000)),
  priority: z.int().min(1).max(1_000_000),
  container: optional(containerPath),
  conditions: optional(z.array(accessRuleCondition).max(50)),
  transform: z.enum(transforms),
  permissions: z.array(permissionName).min(1).max(50),
  /** False: a search by terms over `data` matches only tokens that the rule reveals (rules.md §6). */
  search_data: optional(z.boolean()),
  /** Data is read by the rule only with a reason (the header SVC-REASON, docs/reference/reasons.md). */
  reason: optional(z.enum(reasonDemands)),
  /** The rule reveals only with a reason, and each reveal is reported to `security_webhook_url` (docs/reference/reasons.md). */
  break_glass: optional(z.boolean()),
});
type ParsedRule = z.infer<typeof accessRule>;
type OptionalFields = 'description' | 'container' | 'conditions' | 'search_data' | 'reason' | 'break_glass';
export type AccessRule = Omit<ParsedRule, OptionalFields> & Partial<Pick<ParsedRule, OptionalFields>>;

export const accessRules = z
  .array(accessRule)
  .max(100)
  .refine(
    (rules) => new Set(rules.map((rule) => rule.priority)).size === rules.length,
    'priorities must be unique',
  );
