import { z } from 'zod';
import { tokenTypes } from '../names.ts';
import { anyJson, boundedMap, fieldLimits, optional, secretOf, text } from '../text.ts';
import { containerPath } from './access-rules.ts';
import { page, paging, repeatable } from './paging.ts';

/** Ids chosen by callers: 3–400 characters, without the characters that URLs and expressions use (rules.md §3). */
export const tokenIdPattern = /^[^#/\\+?[\]|&=%<>{}^]{3,400}$/u;

const controlCharacter = /[\u0000-\u001f\u007f]/;
/** The pattern bounds the length, so that an error tells the rule once. */
export const tokenId = text(1, 1000)
  .regex(tokenIdPattern, 'must be 3–400 characters without # / \\ + ? [ ] | & = % < > { } ^')
  .refine(
    (id) => !controlCharacter.test(id) && id.trim() === id,
    'must not hold control characters or outer space',
  );

const maxMetadata = 50;
export const metadata = boundedMap(text(1, 200), text(0, 1000), maxMetadata);

export const expression = text(1, 400);
const containers = z.array(containerPath).length(1, 'must hold exactly one container');
const searchIndexes = z.array(expression).max(10);

export const createTokenBody = z.object({
  /** A literal id, or an expression over `data`. The result of an expression must satisfy the rule for literal ids. */
  id: optional(text(1, 1000)),
  type: z.enum(tokenTypes),
  data: secretOf(anyJson.refine((value) => value !== null, 'is required')),
  mask: optional(anyJson),
  containers: optional(containers),
  metadata: optional(metadata),
  search_indexes: optional(searchIndexes),
  fingerprint_expression: optional(expression),
  deduplicate_token: optional(z.boolean()),
  expires_at: optional(text(1, 100)),
});
export type CreateTokenBody = z.infer<typeof createTokenBody>;

/** RFC 7386: null removes a field; an absent field stays as it is. */
export const patchTokenBody = z.object({
  data: secretOf(anyJson.optional()),
  mask: anyJson.optional(),
  /** Null removes a key. So a patch may remove the maximum number of keys and add the maximum number of new ones. */
  metadata: boundedMap(text(1, 200), text(0, 1000).nullable(), 2 * maxMetadata).nullish(),
  containers: containers.nullish(),
  search_indexes: searchIndexes.nullish(),
  fingerprint_expression: expression.nullish(),
  deduplicate_token: z.boolean().nullish(),
  expires_at: text(1, 100).nullish(),
});
export type PatchTokenBody = z.infer<typeof patchTokenBody>;

export const token = z.object({
  id: z.string(),
  tenant_id: z.uuid(),
  type: z.string(),
  data: anyJson.optional(),
  mask: anyJson.optional(),
  enrichments: z.record(z.string(), anyJson).optional(),
  fingerprint: z.string().optional(),
  fingerprint_expression: z.string().optional(),
  containers: z.array(z.string()).optional(),
  metadata: z.record(z.string(), z.string()).optional(),
  search_indexes: z.array(z.string()).optional(),
  expires_at: z.string().optional(),
  created_by: z.string().optional(),
  created_at: z.string().optional(),
  modified_by: z.string().optional(),
  modified_at: z.string().optional(),
});
export type Token = z.infer<typeof token>;

const metadataPrefix = 'metadata.';
/** Collects `metadata.<key>=value` parameters; a repeated key keeps its first value (interface.md, GET /tokens). */
export const listTokensQuery = z
  .looseObject({ id: repeatable(text(1, 400)), type: repeatable(text(1, 50)), ...paging })
  .register(fieldLimits, { namePrefix: metadataPrefix })
  .transform(({ id, type, page: number, size, ...rest }) => ({
    id,
    type,
    page: number,
    size,
    metadata: Object.entries(rest).flatMap(([name, value]) => {
      if (!name.startsWith(metadataPrefix)) return [];
      const first: unknown = Array.isArray(value) ? value[0] : value;
      return typeof first === 'string' ? [{ key: name.slice(metadataPrefix.length), value: first }] : [];
    }),
  }));

export const searchTokensBody = z.object({
  query: secretOf(text(0, 2000)),
  page: optional(z.int().min(1).max(999_999_999)),
  size: optional(z.int().min(0).max(100)),
});

/** Any JSON with `{{ <token id> | filters }}` in its strings (rules.md §4). */
export const detokenizeBody = secretOf(anyJson);
export const detokenizeAnswer = z.object({
  /** The body of the request with the tokens in place of the expressions. */
  data: anyJson,
  /** The tokens that were replaced by null. `redacted`: the caller may read the token, but not see its data. */
  not_opened: z.array(
    z.object({
      id: z.string(),
      reason: z.enum(['not-found', 'forbidden', 'needs-reason', 'redacted']),
    }),
  ),
});
export type DetokenizeAnswer = z.infer<typeof detokenizeAnswer>;

/** The maximum number of tokens in one request for many tokens. */
const maxTokens = 1_000;
/** The error that a request for this item alone would get. */
const itemError = z.object({
  type: z.string(),
  title: z.string(),
  detail: z.string(),
  errors: z.record(z.string(), z.array(z.string())).optional(),
});

/** Each token is a body of POST /tokens. It is validated by itself, so an invalid token does not affect the others. */
export const createTokensBody = z.object({ tokens: z.array(secretOf(anyJson)).min(1).max(maxTokens) });
export const batchAnswer = z.object({
  /** One for each token of the request, in order: 201, 200 for an existing token, or the status of its error. */
  results: z.array(z.object({ status: z.int(), token: token.optional(), error: itemError.optional() })),
});
export type BatchAnswer = z.infer<typeof batchAnswer>;

export const deleteTokensBody = z.object({
  ids: z
    .array(text(1, 400))
    .min(1)
    .max(maxTokens)
    .refine((ids) => new Set(ids).size === ids.length, 'must be different'),
});
export const deleteTokensAnswer = z.object({
  /** One for each id of the request, in order: 204, or the status of its error. */
  results: z.array(z.object({ id: z.string(), status: z.int(), error: itemError.optional() })),
});
export type DeleteTokensAnswer = z.infer<typeof deleteTokensAnswer>;

export const tokenPage = page(token);
export const tokenParams = z.object({ id: text(1, 400) });
