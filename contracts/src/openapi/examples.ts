import type { z } from 'zod';
import type { OperationId, Operations } from '../operations/index.ts';
import { applicationId, created, listOf, tenantId, transaction } from './example-parts.ts';
import { proxyExamples } from './proxy-examples.ts';
import { consoleExamples } from './console-examples.ts';

export interface OperationExamples {
  readonly body?: unknown;
  readonly response?: unknown;
}

const reactorId = 'd5b6b2a4-5c0f-4c0e-8f9a-6f0f4b1e9c77';

const token = {
  id: '0f0e5bb2-5e0b-44c1-8f39-3b9d6a1c6b0e',
  tenant_id: tenantId,
  type: 'card',
  data: { number: 'XXXXXXXXXXXX4242', expiration_month: 12, expiration_year: 2030 },
  mask: {
    number: '{{ data.number | reveal_last: 4 }}',
    expiration_month: '{{ data.expiration_month }}',
    expiration_year: '{{ data.expiration_year }}',
  },
  containers: ['/pci/high/'],
  metadata: { customer: '1234' },
  search_indexes: ['{{ data.number | last4 }}'],
  ...created,
};

const applicationKey = {
  id: '0f0a5b8e-55c5-4d55-9d0b-0a7c3c2f8e11',
  created_at: '2026-01-31T09:30:00.000Z',
  expires_at: '2030-01-31T09:30:00Z',
};
const usedKey = { ...applicationKey, last_used_at: '2026-02-01T08:00:00.000Z' };
const application = {
  id: applicationId,
  tenant_id: tenantId,
  name: 'backend',
  type: 'private',
  permissions: ['token:create', 'token:read'],
  rules: [],
  ...created,
};
const grants = {
  name: 'backend',
  rules: [
    {
      description: 'Cards in clear for payments',
      priority: 1,
      container: '/pci/',
      transform: 'reveal',
      permissions: ['token:read', 'token:create'],
    },
  ],
};

const reactorBody = {
  name: 'charge',
  code: 'module.exports = async function (req) { return { raw: { last4: req.args.card.number.slice(-4) } }; };',
  configuration: { ENDPOINT: 'https://payments.example' },
  application: { id: applicationId },
};
const reactor = {
  id: reactorId,
  tenant_id: tenantId,
  ...reactorBody,
  application: { id: applicationId, name: 'backend', type: 'private' },
  ...created,
};

const invocation = {
  id: '8c1f0a52-3d0b-4f7f-9a43-5b0d6f1c2e90',
  tenant_id: tenantId,
  reactor: { id: reactorId },
  mode: 'async',
  state: 'succeeded',
  invoked_by: applicationId,
  invoked_at: created.created_at,
  started_at: created.created_at,
  ended_at: created.created_at,
  duration_ms: 0,
  delivery: {
    state: 'given-up',
    attempts: [{ number: 1, attempted_at: created.created_at, reason: 'refused-address' }],
  },
};

const tenant = {
  id: tenantId,
  name: 'Example Ltd',
  plan: 'enterprise',
  settings: { deduplicate_tokens: 'true' },
  created_at: created.created_at,
};
const secret = { secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' };

/** The examples that an operation needs: a body if it takes one, a response if it gives one. */
type ExamplesOf<O> = (O extends { readonly body: z.ZodType } ? { readonly body: unknown } : unknown) &
  (O extends { readonly response: z.ZodType } ? { readonly response: unknown } : unknown);
type WithExamples = {
  [Id in OperationId]: Operations[Id] extends { readonly body: z.ZodType } | { readonly response: z.ZodType }
    ? Id
    : never;
}[OperationId];

/** A request and an answer of each operation. A missing example does not compile. */
export const operationExamples: Readonly<Partial<Record<OperationId, OperationExamples>>> = {
  createTokens: {
    body: { tokens: [{ type: 'card', data: { number: '4242424242424242' } }, { type: 'card' }] },
    response: {
      results: [
        { status: 201, token },
        {
          status: 400,
          error: {
            type: 'urn:token-vault:problem:validation-failed',
            title: 'One or more validation errors occurred.',
            detail: 'The request is not valid; see errors.',
            errors: { data: ['is required'] },
          },
        },
      ],
    },
  },
  deleteTokens: {
    body: { ids: [token.id] },
    response: { results: [{ id: token.id, status: 204 }] },
  },
  detokenize: {
    body: {
      card: `{{ ${token.id} }}`,
      last4: `{{ ${token.id} | json: '$.number' | last4 }}`,
      gone: '{{ gone }}',
    },
    response: {
      data: { card: token.data, last4: '4242', gone: null },
      not_opened: [{ id: 'gone', reason: 'not-found' }],
    },
  },
  createToken: {
    body: {
      type: 'card',
      data: { number: '4242424242424242', expiration_month: 12, expiration_year: 2030, cvc: '123' },
      metadata: { customer: '1234' },
      search_indexes: ['{{ data.number | last4 }}'],
    },
    response: token,
  },
  searchTokens: {
    body: { query: 'data:4242 AND container:"/pci/*"', page: 1, size: 20 },
    response: listOf(token),
  },
  listTokens: { response: listOf(token) },
  getToken: { response: token },
  updateToken: {
    body: { metadata: { customer: '5678' } },
    response: { ...token, metadata: { customer: '5678' } },
  },
  tokenize: {
    body: { name: 'Ada', card: { type: 'card', data: { number: '4242424242424242' } }, note: null },
    response: { name: '9a1b7c55-2f5c-4d8f-8a35-b8f9f6b35e0d', card: token, note: null },
  },
  createApplication: {
    body: { name: 'backend', type: 'private', permissions: ['token:create', 'token:read'] },
    response: { ...application, key: 'key_pvt_7MZ4WfS9sD3k2QpXcVbN8hJt' },
  },
  listApplications: { response: listOf(application) },
  getApplicationByKey: { response: application },
  getApplication: { response: application },
  updateApplication: { body: grants, response: { ...application, permissions: [], rules: grants.rules } },
  regenerateApplicationKey: { response: { ...application, key: 'key_pvt_Q2w3E4r5T6y7U8i9O1pAsDfG' } },
  createApplicationKey: {
    body: { expires_at: '2030-01-31T09:30:00Z' },
    response: { ...applicationKey, key: 'key_pvt_R3e4W5q6T7y8U9i1O2pAsDfG' },
  },
  listApplicationKeys: { response: [usedKey] },
  getApplicationKey: { response: usedKey },
  listPermissions: {
    response: [
      { type: 'token:create', description: 'Create tokens', application_types: ['private', 'public'] },
    ],
  },
  createSession: {
    response: {
      session_key: 'key_ses_Z9x8C7v6B5n4M3k2J1hGfDsA',
      nonce: 'b8Wm3Kq9',
      expires_at: '2026-01-31T09:33:00.000Z',
    },
  },
  authorizeSession: {
    body: {
      nonce: 'b8Wm3Kq9',
      rules: [
        {
          priority: 1,
          conditions: [{ attribute: 'id', operator: 'equals', value: token.id }],
          transform: 'reveal',
          permissions: ['token:read'],
        },
      ],
    },
  },
  createReactor: { body: reactorBody, response: reactor },
  listReactors: { response: listOf(reactor) },
  getReactor: { response: reactor },
  updateReactor: { body: reactorBody, response: reactor },
  patchReactor: { body: { configuration: { ENDPOINT: null } } },
  react: { body: { args: { card: `{{ ${token.id} }}`, amount: 100 } }, response: { raw: { last4: '4242' } } },
  ...proxyExamples,
  listInvocations: { response: listOf(invocation) },
  getInvocation: { response: invocation },
  listLogs: {
    response: listOf({
      tenant_id: tenantId,
      actor_id: applicationId,
      actor_type: 'application',
      entity_type: 'card',
      entity_id: token.id,
      operation: 'read',
      transform: 'mask',
      request: 'getToken',
      trace_id: 'b0a3ad3c-9d0f-4d3b-8d0a-0c1f3a4f5b6c',
      message: 'Token retrieved',
      created_at: created.created_at,
    }),
  },
  summarizeLogs: {
    response: {
      interval: 'hour',
      group_by: 'transform',
      total_items: 15,
      data: [
        { start: '2026-01-31T10:00:00.000Z', value: 'mask', count: 12 },
        { start: '2026-01-31T10:00:00.000Z', value: 'reveal', count: 3 },
      ],
    },
  },
  listEntityTypes: { response: [{ display_name: 'Application', value: 'application' }] },
  createTransaction: { response: transaction },
  getTenant: { response: tenant },
  updateTenant: { body: { name: tenant.name, settings: tenant.settings }, response: tenant },
  getWebhookSecret: { response: secret },
  rotateWebhookSecret: { response: secret },
  getUsageReport: {
    response: {
      token_report: {
        monthly_active_tokens: 3,
        total_tokens: 5,
        months: [{ month: '2026-01', monthly_active_tokens: 3 }],
        metrics_by_type: { card: { count: 5, last_created_at: created.created_at } },
      },
    },
  },
  ...consoleExamples,
} satisfies { readonly [Id in WithExamples]: ExamplesOf<Operations[Id]> };
