import type { Message } from 'kafkajs';
import type { Invocation } from '../port.ts';

const maxIdLength = 200;

/** The key is the invocation, so that repeats of it are in one partition. */
export function invocationMessage({ tenantId, invocationId }: Invocation): Message {
  return { key: invocationId, value: JSON.stringify({ tenant_id: tenantId, invocation_id: invocationId }) };
}

/** The invocation in a message; undefined when the message does not have our format. */
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
