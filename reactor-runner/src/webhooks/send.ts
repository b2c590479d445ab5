import { securityWebhookSetting, streams, type DataOf } from '@token-vault/contracts';
import type { KeyRing, Secret } from '@token-vault/crypto';
import type { EgressFetch } from '@token-vault/egress';
import type { EventStore } from '@token-vault/event-store';
import type { Clock } from '@token-vault/operations';
import { signatureHeaders } from './signature.ts';

const timeoutMs = 15_000;

export interface Webhook {
  readonly tenantId: string;
  /** `webhook-id`: the same for each attempt. */
  readonly id: string;
  readonly traceId: string;
  readonly url: string;
  readonly body: string;
  readonly contentType: string;
  /**
   * Called when the connection is there, because a server may hold it up for seconds: decides whether the webhook may leave, and gives the
   * secrets of that moment.
   */
  readonly secrets: () => Promise<TenantWebhooks['secrets']>;
}

/** Undefined when the receiver accepted the webhook; else the reason why not. @throws EgressError, or the error of `secrets` */
export async function sendWebhook(
  { fetch, clock, store }: { readonly fetch: EgressFetch } & Pick<WebhookDependencies, 'clock' | 'store'>,
  { tenantId, id, traceId, url, body, contentType, secrets }: Webhook,
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
    timeoutMs,
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
  /** The setting `security_webhook_url`. */
  readonly securityUrl: string | undefined;
}

/** The secrets and the setting of a tenant at this moment, from its own stream. They may differ from those at the time of the request. */
export async function readTenantWebhooks(
  { store, keyRing, clock }: WebhookDependencies,
  tenantId: string,
): Promise<TenantWebhooks> {
  let rotated: DataOf<'TenantWebhookSecretRotated'> | undefined;
  let securityUrl: string | undefined;
  for await (const event of store.readStream(streams.tenant(tenantId))) {
    if (event.type === 'TenantWebhookSecretRotated') rotated = event.data;
    if (event.type === 'TenantCreated' || event.type === 'TenantUpdated')
      securityUrl = event.data.settings[securityWebhookSetting];
  }
  if (rotated === undefined) throw new Error('the tenant has no webhook secret');
  // The place (AAD) with which command-service sealed it.
  const place = { tenantId, entity: `tenant:${tenantId}`, field: 'webhook_secret' };
  const now = clock.now().getTime();
  const live = (rotated.earlier ?? []).filter(({ expires_at: end }) => Date.parse(end) > now);
  const secrets = await Promise.all(
    [rotated, ...live].map(({ secret }) => keyRing.open<string>(place, secret)),
  );
  return { secrets, securityUrl: securityUrl === '' ? undefined : securityUrl };
}
