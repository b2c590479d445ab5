// The dependency law of docs/explanation/architecture.md: which folder may import which. `npm run deps` checks it, and
// test/support/test/dependency-law.unit.test.ts plants a violation of each rule to see that it is caught.

/** Each package's folder and what it may import besides itself. Anything else in the workspace is forbidden. */
const law = {
  contracts: [],
  'libs/batching': [],
  'libs/kept-files': [],
  'libs/postgres': [],
  'libs/embedded-postgres': ['libs/postgres'],
  'libs/event-store': ['contracts', 'libs/(batching|postgres)'],
  'libs/egress': [],
  'libs/crypto': ['contracts', 'libs/(batching|postgres)'],
  'libs/expressions': ['contracts', 'libs/batching'],
  'libs/access': ['contracts', 'libs/batching'],
  'libs/tokens': ['contracts', 'libs/(crypto|expressions)'],
  'libs/operations': ['contracts', 'libs/(access|event-store)'],
  'libs/observability': ['libs/(crypto|event-store)'],
  'libs/process': ['libs/observability'],
  'libs/read-models': ['contracts', 'libs/(batching|event-store|observability|operations|postgres)'],
  'libs/authentication': [
    'contracts',
    'libs/(access|crypto|event-store|observability|operations|postgres|read-models)',
  ],
  'libs/idempotency': ['contracts', 'libs/(crypto|event-store|observability|operations)'],
  'libs/http': [
    'contracts',
    'libs/(access|authentication|batching|crypto|event-store|observability|operations|read-models)',
  ],
  'libs/audit': ['contracts', 'libs/(crypto|event-store|idempotency|observability|operations|postgres)'],
  'libs/invocation-feed': ['contracts', 'libs/(batching|event-store)'],
  'command-service': ['contracts', 'libs/[^/]+'],
  'query-service': ['contracts', 'libs/[^/]+'],
  projectors: ['contracts', 'libs/(event-store|batching|postgres)'],
  'reactor-runner': ['contracts', 'libs/[^/]+'],
  proxy: ['contracts', 'libs/[^/]+'],
  // Describes the vault to others; generates from the operations table and imports no service.
  deploy: ['contracts'],
  gateway: ['contracts', 'libs/(http|observability|process)'],
  // The browser uses types and lists of names of the contracts. The process that serves its files imports `console/index.ts`, which makes and keeps the bundle.
  console: ['contracts', 'libs/kept-files'],
  // Puts each process together. No service imports another, so what one needs of another meets here (ADR 10).
  processes: [
    'contracts',
    'libs/[^/]+',
    'command-service',
    'query-service',
    'projectors',
    'reactor-runner',
    'proxy',
    'console',
  ],
  standalone: [
    'contracts',
    'libs/[^/]+',
    'command-service',
    'query-service',
    'projectors',
    'reactor-runner',
    'proxy',
    'processes',
    'gateway',
  ],
};

/** The only packages from npm that a pure or security-relevant part may use; the others are free. */
const fromNpm = {
  contracts: ['zod'],
  'libs/postgres': ['pg'],
  'libs/batching': [],
  'libs/kept-files': [],
  'libs/access': ['zod'],
  'libs/embedded-postgres': ['embedded-postgres', 'pg'],
  'libs/egress': ['undici', 'ipaddr.js'],
  'libs/operations': ['zod'],
  'libs/observability': ['pino', 'prom-client', '@opentelemetry/[^/]+'],
  'libs/process': [],
  'libs/read-models': ['pg'],
  'libs/authentication': ['pg'],
  'libs/idempotency': ['pg'],
  'libs/http': ['express', 'prom-client', 'swagger-ui-dist'],
  'libs/expressions': ['liquidjs', 'json-p3', 're2js'],
  'libs/event-store': ['pg', '@eventstore/db-client'],
  'libs/audit': ['pg', 'zod'],
  'libs/tokens': ['zod'],
  'libs/crypto': ['pg', '@aws-sdk/[^/]+', '@google-cloud/kms', '@azure/[^/]+'],
  projectors: ['pg', 'knex', 'kafkajs', 'pino', 'prom-client'],
};

const folders = [...Object.keys(law), 'test'];
// Tests may reach for test support and anything their package does not forbid itself.
const tests = '(/test/|\\.test\\.ts$|/contract-suite(/|\\.ts$))';
const source = (folder) => ({ path: `^${folder}/`, pathNot: [tests, '/node_modules/'] });

const workspaceRules = Object.entries(law).map(([folder, allowed]) => ({
  name: `law-${folder.replaceAll('/', '-')}`,
  comment: `${folder}/ may import only: ${allowed.join(', ') || 'nothing of the workspace'}`,
  severity: 'error',
  from: source(folder),
  to: {
    path: `^(${folders.join('|')})/`,
    pathNot: [...[folder, ...allowed].map((name) => `^${name}/`), '/node_modules/'],
  },
}));

const npmRules = Object.entries(fromNpm).map(([folder, allowed]) => ({
  name: `npm-${folder.replaceAll('/', '-')}`,
  comment: `${folder}/ may use from npm only: ${allowed.join(', ') || 'nothing'}`,
  severity: 'error',
  from: source(folder),
  to: {
    path: '(^|/)node_modules/',
    pathNot: allowed.flatMap((name) => [`node_modules/${name}/`, `node_modules/@types/${name}/`]),
  },
}));

/** Another package is entered by the doors its package.json names, as `@token-vault/<name>`, never by a path. */
const deepImportRules = folders.map((folder) => ({
  name: `no-path-into-${folder.replaceAll('/', '-')}`,
  comment: `import @token-vault/${folder.split('/').at(-1)} by its name, through its exports`,
  severity: 'error',
  from: { pathNot: [`^${folder}/`, '/node_modules/'] },
  to: { path: `^${folder}/`, dependencyTypes: ['local'] },
}));

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'no-cycle',
      comment: 'a cycle has no order of initialisation and no part that can be understood alone',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'not-resolvable',
      comment: 'misspelt, not exported by that package, or not in package.json',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'isolates-only-in-the-sandbox',
      comment: 'isolated-vm runs in the killable child process of reactor-runner/src/sandbox only',
      severity: 'error',
      from: { pathNot: ['^reactor-runner/src/sandbox/', '^reactor-runner/test/'] },
      to: { path: 'node_modules/isolated-vm/' },
    },
    {
      name: 'production-does-not-import-tests',
      comment: 'what ships must not need test support',
      severity: 'error',
      from: { pathNot: [tests, '^test/', '\\.config\\.ts$', '/node_modules/'] },
      to: { path: ['^test/', '\\.test\\.ts$', '^[^/]+/test/', '^libs/[^/]+/test/'] },
    },
    ...workspaceRules,
    ...npmRules,
    ...deepImportRules,
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: ['^\\.(vault|cache|git)/'] },
    preserveSymlinks: false,
    combinedDependencies: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.cjs', '.json'],
    },
  },
};
