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
