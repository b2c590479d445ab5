import {
  AlteredRecordError,
  securityWebhookSetting,
  signatureOf,
  streams,
  tenantStatement,
  type DataOf,
  type StatedTenant,
} from '@token-vault/contracts';
import type { KeyRing, Secret } from '@token-vault/crypto';
import type { EgressFetch } from '@token-vault/egress';
import type { EventStore, RecordedEvent } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { signatureHeaders } from './signature.ts';

export interface Webhook {
  readonly tenantId: string;
  /** `webhook-id`: the same for each attempt. */
  readonly id: string;
  readonly traceId: string;
  readonly url: string;
  readonly body: string;
  readonly contentType: string;
  /** Ends the attempt. */
  readonly signal: AbortSignal;
  /**
   * Called when the connection is there, because a server may hold it up for seconds: decides whether the webhook may leave, and gives the
   * secrets of that moment.
   */
  readonly secrets: () => Promise<TenantWebhooks['secrets']>;
}

/** Undefined when the receiver accepted the webhook; else the reason why not. @throws EgressError, or the error of `secrets` */
export async function sendWebhook(
  { fetch, clock, store }: { readonly fetch: EgressFetch } & Pick<WebhookDependencies, 'clock' | 'store'>,
  { tenantId, id, traceId, url, body, contentType, signal, secrets }: Webhook,
): Promise<string | undefined> {
  const { status } = await fetch({
    tenantId,
    url,
    method: 'POST',
    headers: [
      ['content-type', contentType],
      ['user-agent', 'token-vault-webhooks'],
      ['svc-trace-id', traceId],
    ],
    body: Buffer.from(body, 'utf8'),
    redirect: 'manual',
    signal,
    async permit() {
      // The rights that decide and the secrets are read at the same moment.
      const present = await store.consistently(secrets);
      const exposed = present.map((secret) => secret.expose());
      return signatureHeaders(exposed, { id, at: clock.now(), body });
    },
  });
  return status >= 200 && status < 300 ? undefined : `status ${status}`;
}

interface WebhookDependencies {
  readonly store: EventStore;
  readonly keyRing: KeyRing;
  readonly clock: Clock;
}

export interface TenantWebhooks {
  /** The present secret, then the earlier ones that still sign. */
  readonly secrets: readonly Secret<string>[];
  /** The setting `security_webhook_url`. @throws AlteredRecordError when the tenant is not as the vault signed it */
  readonly securityUrl: () => string | undefined;
}

interface SignedTenant {
  readonly stated: StatedTenant | undefined;
  readonly signature: string | undefined;
}

/** What the tenant's signature covers, after the event. */
function statedAfter({ stated, signature }: SignedTenant, event: RecordedEvent): SignedTenant {
  if (event.type === 'TenantCreated')
    return { stated: { ...event.data, acceptsUnsigned: false }, signature: signatureOf(event) };
  if (!stated) return { stated, signature };
  if (event.type === 'TenantUpdated' || event.type === 'TenantPlanChanged')
    return { stated: { ...stated, ...event.data }, signature: signatureOf(event) };
  if (event.type !== 'TenantSigned') return { stated, signature };
  const { accepts_unsigned: acceptsUnsigned } = event.data;
  return { stated: { ...stated, acceptsUnsigned }, signature: signatureOf(event) };
}

/** The secrets and the setting of a tenant at this moment, from its own stream. They may differ from those at the time of the request. */
export async function readTenantWebhooks(
  { store, keyRing, clock }: WebhookDependencies,
  tenantId: string,
): Promise<TenantWebhooks> {
  let rotated: DataOf<'TenantWebhookSecretRotated'> | undefined;
  let tenant: SignedTenant = { stated: undefined, signature: undefined };
  for await (const event of store.readStream(streams.tenant(tenantId))) {
    if (event.type === 'TenantWebhookSecretRotated') rotated = event.data;
    tenant = statedAfter(tenant, event);
  }
  if (rotated === undefined) throw new Error('the tenant has no webhook secret');
  // The place (AAD) with which command-service sealed it.
  const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
  const now = clock.now().getTime();
  const live = (rotated.earlier ?? []).filter(({ expires_at: end }) => Date.parse(end) > now);
  const secrets = await Promise.all(
    [rotated, ...live].map(({ secret }) => keyRing.open<string>(place, secret)),
  );
  const hashes = await keyRing.hashes(tenantId);
  const { stated, signature } = tenant;
  const securityUrl = () => {
    if (!stated || !hashes.isSigned(tenantStatement(stated), signature))
      throw new AlteredRecordError('tenant');
    const url = stated.settings[securityWebhookSetting];
    return url === '' ? undefined : url;
  };
  return { secrets, securityUrl };
}
