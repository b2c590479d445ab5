import { VaultClient } from './client.ts';
import type pg from 'pg';

/** The function that takes the payload of a notification, by channel. Payloads are empty strings when a notification has none. */
export type Channels = Readonly<Record<string, (payload: string) => void>>;

/** Calls `onLost` once when the connection ends for whatever reason, also while it is idle. */
export function watchLoss(client: pg.Client, onLost: (error: Error) => void): void {
  let isLost = false;
  const lose = (error: Error) => {
    if (isLost) return;
    isLost = true;
    onLost(error);
  };
  client.on('error', lose);
  client.on('end', () => lose(new Error('the connection was closed')));
}

/**
 * Receives the notifications of these channels until the connection ends. Resolves when none can be missed any more. Every role that may
 * connect to the database may notify, with any payload. A function that fails has missed a notification, so the connection counts as lost
 * (`watchLoss`), and the process goes on.
 */
export async function listenTo(client: pg.Client, channels: Channels): Promise<void> {
  client.on('notification', ({ channel, payload = '' }) => {
    try {
      channels[channel]?.(payload);
    } catch (error) {
      client.emit('error', error);
      client.end().catch(() => undefined);
    }
  });
  for (const channel of Object.keys(channels)) await client.query(`listen ${channel}`);
}

/**
 * A connection of its own that listens. Keep-alive: a silent loss is noticed within a minute. `onLost` is called once; then notifications
 * may have been missed, and the caller connects again. Rejects when Postgres does not answer within 5 s; `onLost` may have been called.
 */
export async function openListener(
  settings: pg.ClientConfig,
  channels: Channels,
  onLost: (client: pg.Client) => void,
): Promise<pg.Client> {
  const client = new VaultClient({
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...settings,
  });
  watchLoss(client, () => onLost(client));
  try {
    await client.connect();
    await listenTo(client, channels);
  } catch (error) {
    client.end().catch(() => undefined);
    throw error;
  }
  return client;
}
