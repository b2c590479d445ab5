import { tableOf, authorOf, type DataOf, type EventMetadata, type Json } from '@token-vault/contracts';
import type { Occurrence, Projection, SqlOp } from '../projection.ts';

type Access = Pick<Occurrence, 'id' | 'metadata'>;
type Told = DataOf<'TokensExported'>['tokens'];

/** The content of the webhook. It never holds data of a token. */
const contentOf = (
  { actor, trace_id, request, reason, occurred_at, ...rest }: EventMetadata,
  tokens: Told,
) => ({
  tenant_id: rest.tenant_id,
  actor_id: actor.id,
  actor_type: actor.kind,
  application_id: authorOf({ actor, ...rest }),
  reason: reason ?? null,
  request: request ?? null,
  trace_id,
  tokens: tokens.map(({ token_id: id, token_type: type }) => ({ id, type })),
  created_at: occurred_at,
});

/** The webhook is due at once. One for each record: a page of a list, an invocation, a page of an export. */
function due({ id, metadata }: Access, operation: string, tokens: Told): SqlOp[] {
  const revealed = tokens.filter(({ break_glass: isBreakGlass }) => isBreakGlass);
  if (revealed.length === 0) return [];
  const { tenant_id, occurred_at: next_at } = metadata;
  const content: Json = { operation, ...contentOf(metadata, revealed) };
  const row = { id, tenant_id, application_id: authorOf(metadata), next_at, content };
  return [{ kind: 'insert', table: 'delivery', row }];
}

const end = ({ data }: { readonly data: { readonly alert_id: string } }): SqlOp[] => [
  { kind: 'delete', table: 'delivery', key: { id: data.alert_id } },
];

/** Security webhooks that are due: reveals by rules with `break_glass` (docs/reference/reasons.md). Empty when all are delivered. */
export const alerts: Projection<'alerts'> = {
  name: 'alerts',
  version: 3,
  isAwaited: false,
  tables: [
    {
      ...tableOf('alerts', 'delivery'),
      primaryKey: ['id'],
      indexes: [{ on: '(tenant_id, application_id, next_at, id)' }],
    },
  ],
  on: {
    TokensRead: (event) => due(event, event.data.operation, event.data.tokens),
    TokensExported: (event) => due(event, 'export', event.data.tokens),
    AlertAttemptFailed: ({ data: { alert_id: id, next_at } }) => [
      { kind: 'update', table: 'delivery', key: { id }, set: { next_at } },
    ],
    AlertDelivered: end,
    AlertGivenUp: end,
    TenantDeleted: ({ data: { tenant_id } }) => [{ kind: 'sweep', table: 'delivery', where: { tenant_id } }],
  },
};
