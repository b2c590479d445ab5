import { applicationId, created, listOf, tenantId } from './example-parts.ts';

const proxyBody = {
  name: 'payments',
  destination: 'https://payments.example/v1',
  application: { id: applicationId },
  response: {
    code: 'module.exports = async ({ args }) => ({ tokenize: { card: { type: "card_number", data: args.body.number } } });',
  },
  require_auth: false,
  configuration: { MERCHANT: '1234' },
};
const proxyKey = {
  id: '2a9d7c14-0b61-4f6e-8a1d-6e2b0c9d5f37',
  created_at: created.created_at,
  expires_at: '2030-01-31T09:30:00Z',
};
const proxy = {
  id: '3f1c5b7a-8d2e-4c60-9b4f-1a2d3e4f5a6b',
  tenant_id: tenantId,
  ...proxyBody,
  application: { id: applicationId, name: 'backend', type: 'private' },
  keys: [{ ...proxyKey, last_used_at: '2026-02-01T08:00:00.000Z' }],
  ...created,
};

export const proxyExamples = {
  createProxy: { body: proxyBody, response: { ...proxy, keys: [] } },
  listProxies: { response: listOf(proxy) },
  getProxy: { response: proxy },
  updateProxy: { body: proxyBody, response: proxy },
  patchProxy: { body: { configuration: { MERCHANT: null } } },
  createProxyKey: {
    body: { expires_at: proxyKey.expires_at },
    response: { ...proxyKey, key: 'key_prx_W5e6R7t8Y9u1I2o3PaSdFgHj' },
  },
};
