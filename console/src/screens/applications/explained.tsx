import { withQuery } from '../../api/client.ts';
import type { Explanation } from '@token-vault/contracts';
import { useQuery } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Loaded, Missing } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Access } from './access.tsx';

interface ExplainedProps {
  readonly applicationId: string;
  readonly tokenId: string;
}

function decidedBy({ by, rule }: Explanation['operations'][number]): string {
  if (by === 'nothing') return 'no rule and no permission grants it';
  if (by === 'permissions' || rule === undefined) return 'the plain permissions of the application';
  const about = rule.description ? `: ${rule.description}` : '';
  return `rule ${rule.priority}${rule.container ? ` on ${rule.container}` : ''}${about}`;
}

/** The rule that decides about each operation of an application on a token, as the vault itself finds it. */
export function Explained({ applicationId, tokenId }: ExplainedProps) {
  const mayRead = useMay('log:read');
  const explanation = useQuery<Explanation>(
    mayRead ? withQuery(`/applications/${applicationId}/explain`, { token_id: tokenId }) : undefined,
  );
  if (!mayRead) return <Missing permission="log:read" />;
  return (
    <Loaded query={explanation}>
      {({ application, token, operations }) => (
        <>
          <p className="small">
            <strong>{application.name}</strong> on the {token.type} in{' '}
            <code>{token.containers.join(' ')}</code>
          </p>
          <Table
            label={`What ${application.name} may do with the token`}
            rows={operations}
            keyOf={({ permission }) => permission}
            columns={[
              { name: 'Operation', show: ({ permission }) => <code>{permission}</code> },
              { name: 'Sees', show: (operation) => <Access cell={operation} /> },
              { name: 'Decided by', show: decidedBy },
            ]}
          />
        </>
      )}
    </Loaded>
  );
}
