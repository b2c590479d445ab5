const tenantId = '6f1c0f2e-6a0e-4a86-9a53-5d7d5a1f6d11';
const applicationId = '3c9d3c64-9a0b-4a77-8a66-2d9fb3c0c3a5';
const tokenId = '0f0e5bb2-5e0b-44c1-8f39-3b9d6a1c6b0e';
const at = '2026-01-31T09:30:00.000Z';
const rule = {
  description: 'Cards in clear for payments',
  priority: 1,
  container: '/pci/',
  transform: 'reveal',
  permissions: ['token:read', 'token:create'],
};
const callerName = { id: applicationId, name: 'backend', type: 'private' };
const consoleSession = {
  id: '7d0c1f0e-3c55-4a6e-9b8e-1f2d3c4b5a69',
  tenant: { id: tenantId, name: 'First tenant', plan: 'enterprise' },
  applications: [{ ...callerName, name: 'admin', type: 'management', permissions: ['log:read'] }],
  permissions: ['log:read'],
  is_operator: true,
  created_at: at,
  expires_at: '2026-01-31T21:30:00.000Z',
  idle_expires_at: '2026-01-31T10:00:00.000Z',
};

const erasedBy = {
  type: 'TokenDeleted',
  id: '9c1f6c52-2f6b-4f57-8d5b-2f7a0c5e8d11',
  stream: `token-${tenantId}.${tokenId}`,
  revision: 1,
  position: '1234',
  occurred_at: at,
  hash: '6b1f5e0c9d8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c',
};

/** Examples of the operations of the console. */
export const consoleExamples = {
  openConsoleSession: { response: consoleSession },
  getConsoleSession: { response: consoleSession },
  getConsoleOverview: {
    response: {
      at: at,
      rates: { seconds: 10, requests: 12.3, reveals: 0.4, appends: 20.1 },
      runs_waiting: 0,
      projections: [{ name: 'tokens', status: 'live', behind: 0, stalled_seconds: 0 }],
      audit: {
        checkpoint: { signed_at: at, through: '1234', events: 1200 },
        unsigned_entries: 34,
      },
      last_hour: [{ entity_type: 'token', operation: 'read', count: 123 }],
    },
  },
  getAccessMatrix: {
    response: {
      pagination: { total_items: 1, page_number: 1, page_size: 20, total_pages: 1 },
      containers: ['/general/high/', '/pci/high/'],
      more_containers: false,
      data: [
        {
          ...callerName,
          access: [{ transform: 'mask' }, { transform: 'none', with_reason: 'reveal' }],
        },
      ],
    },
  },
  explainAccess: {
    response: {
      application: callerName,
      token: { id: tokenId, type: 'card', containers: ['/pci/high/'] },
      operations: [
        { permission: 'token:read', transform: 'reveal', by: 'rule', rule: rule },
        { permission: 'token:delete', transform: 'none', by: 'nothing' },
      ],
    },
  },
  verifyLog: {
    response: {
      findings: [],
      events: 1200,
      checkpoints: 34,
      unsigned_events: 0,
      through: '10450',
      signed_at: at,
      cursor:
        '10450.34.7dKQ0m3bTjv2Wn5c8YxLr1uEoZfHs6GaPq9iNwXkC4tRyBhVlDzJgMeSpUaQoFi2L5nT8vKx3YcWr0bEjHdGpQ',
    },
  },
  getErasureCertificate: {
    response: {
      format: 'token-vault erasure certificate 1',
      tenant_id: tenantId,
      token_id: tokenId,
      token_type: 'card',
      erased_by: erasedBy,
      destroyed_keys: [
        { key_id: '5a4d7f0e-0b59-4f6b-9d34-0c6a1f2e3d4c', sealed: ['data'], decided_by: erasedBy },
      ],
      verified_at: at,
      public_key: 'F5rV3kq8sY0n1c2d3e4f5g6h7i8j9k0lMnOpQrStUvW',
      signature: 'b2JzZXJ2ZSB0aGF0IHRoaXMgaXMgYW4gZXhhbXBsZSBvZiBhIHNpZ25hdHVyZSBvZiA2NCBieXRlcw0KDQoNCg',
    },
  },
  getVaultOperations: {
    response: {
      at: at,
      release: '0.1.0',
      head: '1234',
      projections: [
        {
          name: 'log',
          status: 'live',
          behind: 0,
          stalled_seconds: 0,
          version: 5,
          position: '1234',
          updated_at: at,
        },
      ],
      keys: { root_keys: 1, is_root_rotating: false, tenants: 1, tenants_rotating: 0 },
      housekeeping: [{ task: 'erasure', position: '1230', updated_at: at }],
      settings: [{ name: 'VAULT_PORT', value: '8080' }],
    },
  },
  commandProjection: {
    body: { action: 'rebuild' },
    response: { name: 'log', action: 'rebuild', target: 'rebuild' },
  },
} as const;
