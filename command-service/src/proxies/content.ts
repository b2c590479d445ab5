import {
  parseProxyDestination,
  ValidationError,
  type PatchProxyBody,
  type Proxy,
  type ProxyBody,
} from '@token-vault/contracts';
import type { Secret } from '@token-vault/crypto';
import type { Configuration } from '../reactors/configuration.ts';
import type { ReferencedApplication } from '../reactors/referenced-application.ts';
import type { ProxyContent, ProxyDetails } from './state.ts';

/** The fields that are not taken from the request as they are. */
type Derived = Pick<ProxyContent, 'configuration' | 'applicationId'>;

/** The schema has checked it. */
const destinationOf = (given: string): string => parseProxyDestination(given) ?? given;

export const contentOf = (body: ProxyBody, derived: Derived): ProxyContent => ({
  name: body.name,
  destination: destinationOf(body.destination),
  destinations: body.destinations ?? [],
  requestCode: body.request?.code,
  responseCode: body.response?.code,
  requireAuth: body.require_auth ?? true,
  ...derived,
});

type CodePatch = PatchProxyBody['request'];

/** A merge patch (RFC 7386) of a transform: absent leaves it, null removes it. @throws ValidationError */
function codeAfter(field: string, before: string | undefined, patch: CodePatch): string | undefined {
  if (patch === undefined) return before;
  if (patch === null) return undefined;
  const code = patch.code ?? before;
  if (code === undefined) throw ValidationError.of(`${field}.code`, 'is required');
  return code;
}

export const patched = (before: ProxyDetails, patch: PatchProxyBody, derived: Derived): ProxyContent => ({
  name: patch.name ?? before.name,
  destination: patch.destination === undefined ? before.destination : destinationOf(patch.destination),
  destinations: patch.destinations === undefined ? before.destinations : (patch.destinations ?? []),
  requestCode: codeAfter('request', before.requestCode, patch.request),
  responseCode: codeAfter('response', before.responseCode, patch.response),
  requireAuth: patch.require_auth === undefined ? before.requireAuth : (patch.require_auth ?? true),
  ...derived,
});

/** The codes that a request brings, to be compiled. */
export const codesOf = ({
  request,
  response,
}: Pick<PatchProxyBody, 'request' | 'response'>): readonly string[] =>
  [request?.code, response?.code].filter((code) => code !== undefined);

export interface Shown {
  readonly configuration: Secret<Configuration>;
  readonly application: ReferencedApplication | undefined;
}

/** JSON leaves out unset fields. */
export function present(
  tenantId: string,
  details: ProxyDetails,
  { configuration, application }: Shown,
): Proxy {
  const { id, name, destination, destinations, requestCode, responseCode, requireAuth, keys } = details;
  return {
    id,
    tenant_id: tenantId,
    name,
    destination,
    destinations: destinations.length === 0 ? undefined : [...destinations],
    application,
    request: requestCode === undefined ? undefined : { code: requestCode },
    response: responseCode === undefined ? undefined : { code: responseCode },
    require_auth: requireAuth,
    configuration: { ...configuration.expose() },
    keys: keys.map(({ id: keyId, created_at, expires_at }) => ({ id: keyId, created_at, expires_at })),
    created_by: details.createdBy,
    created_at: details.createdAt,
    modified_by: details.modifiedBy,
    modified_at: details.modifiedAt,
  };
}
