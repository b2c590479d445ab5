import { createHmac } from 'node:crypto';

export interface SignedMessage {
  readonly id: string;
  /** The time of this attempt. */
  readonly at: Date;
  readonly body: string;
}

const prefix = 'whsec_';

/** Headers of Standard Webhooks 1.0: HMAC-SHA-256 of id, time in seconds and body under the tenant's secret. */
export function signatureHeaders(secret: string, { id, at, body }: SignedMessage): [string, string][] {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const key = Buffer.from(secret.slice(secret.startsWith(prefix) ? prefix.length : 0), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return [
    ['webhook-id', id],
    ['webhook-timestamp', timestamp],
    ['webhook-signature', `v1,${signature}`],
  ];
}
