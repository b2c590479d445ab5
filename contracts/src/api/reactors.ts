import { z } from 'zod';
import { applicationTypes } from '../permissions.ts';
import { anyJson, boundedMap, optional, optionalBody, secretOf, text } from '../text.ts';
import { entityName } from './applications.ts';
import { page, paging, repeatable } from './paging.ts';

const maxConfiguration = 25;
export const configuration = boundedMap(text(1, 200), text(0, 10_000), maxConfiguration);
export const configurationPatch = boundedMap(text(1, 200), text(0, 10_000).nullable(), 2 * maxConfiguration);
export const code = text(1, 50_000);
export const applicationReference = z.object({ id: z.uuid() });

export const reactorBody = z.object({
  name: entityName,
  code,
  configuration: secretOf(configuration),
  application: optional(applicationReference),
});
export type ReactorBody = z.infer<typeof reactorBody>;

export const patchReactorBody = z.object({
  name: entityName.optional(),
  code: code.optional(),
  configuration: secretOf(configurationPatch.nullish()),
  application: applicationReference.nullish(),
});
export type PatchReactorBody = z.infer<typeof patchReactorBody>;

export const reactor = z.object({
  id: z.uuid(),
  tenant_id: z.uuid(),
  name: z.string(),
  code: z.string(),
  configuration: z.record(z.string(), z.string()),
  application: z
    .object({ id: z.uuid(), name: z.string().optional(), type: z.enum(applicationTypes).optional() })
    .optional(),
  created_by: z.string().optional(),
  created_at: z.string().optional(),
  modified_by: z.string().optional(),
  modified_at: z.string().optional(),
});
export type Reactor = z.infer<typeof reactor>;
export const reactorPage = page(reactor);

export const listReactorsQuery = z.object({
  id: repeatable(z.string().pipe(z.uuid())),
  name: text(1, 200).optional(),
  ...paging,
});

export const reactBody = optionalBody(
  z.object({
    args: secretOf(optional(z.record(z.string(), anyJson))),
    callback_url: secretOf(optional(text(1, 2000))),
    callbackUrl: secretOf(optional(text(1, 2000))),
    timeout_ms: optional(z.int().min(10_000).max(210_000)),
    timeoutMs: optional(z.int().min(10_000).max(210_000)),
  }),
);
export const reactResponse = z.object({
  tokens: anyJson.optional(),
  raw: anyJson.optional(),
  /**
   * Only for a session of the console (docs/reference/console.md): the output of the code, and the number of tokens that were shown to it.
   */
  run: z
    .object({
      console: z.array(z.object({ level: z.string(), text: z.string() })),
      is_cut: z.boolean(),
      tokens_seen: z.int(),
    })
    .optional(),
});
export type ReactResponse = z.infer<typeof reactResponse>;
