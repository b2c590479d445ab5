import { createHmac } from 'node:crypto';

export interface SignedMessage {
  readonly id: string;
  /** The time of this attempt. */
  readonly at: Date;
  readonly body: string;
}

const prefix = 'whsec_';

/**
 * Headers of Standard Webhooks 1.0: HMAC-SHA-256 of id, time in seconds and body under each of the tenant's secrets. A receiver accepts the
 * message when it knows one of them.
 */
export function signatureHeaders(
  secrets: readonly string[],
  { id, at, body }: SignedMessage,
): [string, string][] {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(secret.startsWith(prefix) ? prefix.length : 0), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
  });
  return [
    ['webhook-id', id],
    ['webhook-timestamp', timestamp],
    ['webhook-signature', signatures.join(' ')],
  ];
}
