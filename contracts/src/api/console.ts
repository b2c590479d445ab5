import { z } from 'zod';
import { entityTypes, logOperations } from '../names.ts';
import { permissionName, tokenPermissions, transforms } from '../permissions.ts';
import { text } from '../text.ts';
import { containerPath } from './access-rules.ts';
import { application, listApplicationsQuery, uuidParams } from './applications.ts';
import { page } from './paging.ts';
import { tenant } from './tenants.ts';

const applicationName = application.pick({ id: true, name: true, type: true });

export const consoleSession = z.object({
  id: z.uuid(),
  tenant: tenant.pick({ id: true, name: true, plan: true }),
  /** One application, or a management application and a private one. */
  applications: z.array(applicationName.extend({ permissions: z.array(permissionName) })),
  /** The permissions of all applications of the session, plain ones and those of rules. The console shows its pages by them. */
  permissions: z.array(permissionName),
  /** The tenant may see the state of the whole vault and control its projections. */
  is_operator: z.boolean(),
  created_at: z.string(),
  expires_at: z.string(),
  /** The session ends at this time unless it is used before. */
  idle_expires_at: z.string(),
});
export type ConsoleSession = z.infer<typeof consoleSession>;

export const projectionStates = ['live', 'paused', 'failed', 'outdated'] as const;
const lag = {
  name: z.string(),
  status: z.enum(projectionStates),
  /** Positions of the log that are not applied yet. */
  behind: z.number(),
  stalled_seconds: z.number(),
};

export const consoleOverview = z.object({
  at: z.string(),
  /** Numbers per second of the tenant, over the last `seconds`. */
  rates: z.object({
    seconds: z.number(),
    requests: z.number(),
    reveals: z.number(),
    appends: z.number(),
  }),
  /** Asynchronous runs of the tenant that have not begun. */
  runs_waiting: z.int(),
  projections: z.array(z.object(lag)),
  audit: z.object({
    /** The last signed checkpoint of the tenant's log. `events` counts the tenant's events up to it. */
    checkpoint: z.object({ signed_at: z.string(), through: z.string(), events: z.int() }).optional(),
    /** Entries of the log after the checkpoint; 100,000 means 100,000 or more. */
    unsigned_entries: z.int(),
  }),
  last_hour: z.array(
    z.object({ entity_type: z.enum(entityTypes), operation: z.enum(logOperations), count: z.int() }),
  ),
});
export type ConsoleOverview = z.infer<typeof consoleOverview>;

const shownAs = z.enum(['none', ...transforms]);
export type ShownAs = z.infer<typeof shownAs>;

/** The maximum number of containers of one matrix. */
export const maxMatrixContainers = 200;
export const accessMatrixQuery = listApplicationsQuery.extend({ container: containerPath.optional() });
export const accessMatrix = page(
  applicationName.extend({
    /** In the order of `containers`. */
    access: z.array(z.object({ transform: shownAs, with_reason: shownAs.optional() })),
  }),
).extend({ containers: z.array(z.string()), more_containers: z.boolean() });
export type AccessMatrix = z.infer<typeof accessMatrix>;

export const explainParams = uuidParams;
export const explainQuery = z.object({ token_id: text(1, 400) });
export const explanation = z.object({
  application: applicationName,
  token: z.object({ id: z.string(), type: z.string(), containers: z.array(z.string()) }),
  operations: z.array(
    z.object({
      permission: z.enum(tokenPermissions),
      transform: shownAs,
      /** The transform with a reason (SVC-REASON); absent where a reason makes no difference. */
      with_reason: shownAs.optional(),
      /** The source of the decision: a rule or the plain permissions. `nothing` grants the permission: it is refused. */
      by: z.enum(['rule', 'permissions', 'nothing']),
      rule: application.shape.rules.unwrap().element.optional(),
    }),
  ),
});
export type Explanation = z.infer<typeof explanation>;

const failure = z.object({ code: z.string(), event_id: z.string().optional() });
const rebuild = z.object({
  purpose: z.enum(['swap', 'verify']),
  version: z.int(),
  status: z.enum(projectionStates),
  position: z.string(),
  /** From 0 to 1. */
  progress: z.number(),
  started_at: z.string(),
  updated_at: z.string(),
  error: failure.optional(),
});

export const vaultOperations = z.object({
  at: z.string(),
  release: z.string(),
  /** The last position of the log. */
  head: z.string(),
  projections: z.array(
    z.object({
      ...lag,
      version: z.int(),
      position: z.string(),
      updated_at: z.string(),
      error: failure.optional(),
      rebuild: rebuild.optional(),
    }),
  ),
  keys: z.object({
    /** More than one while the root key is being rotated. */
    root_keys: z.int(),
    is_root_rotating: z.boolean(),
    tenants: z.int(),
    tenants_rotating: z.int(),
  }),
  /** The positions of the tasks that follow the log. */
  housekeeping: z.array(z.object({ task: z.string(), position: z.string(), updated_at: z.string() })),
  settings: z.array(z.object({ name: z.string(), value: z.string() })),
});
export type VaultOperations = z.infer<typeof vaultOperations>;

export const projectionActions = ['rebuild', 'pause', 'resume', 'cancel'] as const;
export type ProjectionAction = (typeof projectionActions)[number];
export const projectionParams = z.object({ name: z.string().regex(/^[a-z_]{1,50}$/, 'is no projection') });
export const projectionCommand = z.object({ action: z.enum(projectionActions) });
export const projectionCommanded = z.object({
  name: z.string(),
  action: z.enum(projectionActions),
  /** The object of the action: a rebuild beside the read model, or the read model itself. */
  target: z.enum(['rebuild', 'live']),
});
