import type { Message } from 'kafkajs';
import type { Invocation } from '../port.ts';

const maxIdLength = 200;

/** Keyed by invocation, so that repeats of one meet in one partition. */
export function invocationMessage({ tenantId, invocationId }: Invocation): Message {
  return { key: invocationId, value: JSON.stringify({ tenant_id: tenantId, invocation_id: invocationId }) };
}

/** What a message says; undefined when it is not one of ours. */
export function parseInvocation(value: Buffer | null): Invocation | undefined {
  try {
    const { tenant_id: tenantId, invocation_id: invocationId } = JSON.parse(
      value?.toString() ?? '',
    ) as Record<string, unknown>;
    return isId(tenantId) && isId(invocationId) ? { tenantId, invocationId } : undefined;
  } catch {
    return undefined;
  }
}

function isId(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= maxIdLength;
}
