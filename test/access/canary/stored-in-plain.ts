import type { OperationId } from '@token-vault/contracts';

/**
 * The places whose text is stored in plain when the request succeeds: those that the interface calls non-sensitive,
 * and those that the threat model names as not secret (ids, types, containers, metadata, expressions). A canary in
 * any other place is a leak.
 */
interface Allowance {
  readonly places: readonly string[];
  readonly reason: string;
  /** Also in the log, which names the entities of requests. */
  readonly isLogged?: true;
}

const ids = 'the caller chose it as the name of the token (interface.md, Token: id)';
const expressions =
  'expressions say how data is shown, and are shown to all (interface.md, Token; threat-model.md)';
const containers = 'paths of groups of tokens (interface.md, Token: containers)';
const metadata = 'non-sensitive by its definition (interface.md, Token: metadata)';
const names = 'names and descriptions are shown to all who may list (interface.md, Application, Reactor)';
const grants = 'a rule is stored and shown as it was given (interface.md, Access Rule)';
const settings = 'settings of the tenant are shown as they are (rules.md §8)';

const tokenFields: readonly Allowance[] = [
  {
    places: [
      'body.mask',
      'body.mask.within',
      'body.mask.within name',
      'body.search_indexes[]',
      'body.fingerprint_expression',
    ],
    reason: expressions,
  },
  { places: ['body.containers[]'], reason: containers },
  { places: ['body.metadata.*', 'body.metadata.* name'], reason: metadata },
];
const rules: Allowance = {
  places: ['body.rules[].description', 'body.rules[].container'],
  reason: grants,
};
const reactors: Allowance = { places: ['body.name', 'body.code'], reason: names };

const proxies: Allowance = {
  places: ['body.name', 'body.destination', 'body.destinations[]', 'body.request.code', 'body.response.code'],
  reason: 'what a proxy does is shown to all who may list (docs/reference/proxy.md)',
};

export const storedInPlain: Readonly<Partial<Record<OperationId, readonly Allowance[]>>> = {
  createToken: [...tokenFields, { places: ['body.id'], reason: ids, isLogged: true }],
  updateToken: tokenFields,
  createApplication: [rules, { places: ['body.name'], reason: names }],
  updateApplication: [rules, { places: ['body.name'], reason: names }],
  authorizeSession: [
    { places: ['body.rules[].description', 'body.rules[].conditions[].value'], reason: grants },
  ],
  createReactor: [reactors],
  updateReactor: [reactors],
  patchReactor: [reactors],
  createProxy: [proxies],
  updateProxy: [proxies],
  patchProxy: [proxies],
  updateTenant: [{ places: ['body.name', 'body.settings.*', 'body.settings.* name'], reason: settings }],
};

export const allowanceOf = (operation: string, place: string): Allowance | undefined =>
  storedInPlain[operation as OperationId]?.find(({ places }) => places.includes(place));
