import type { Token as TokenAnswer } from '@token-vault/contracts';
import { useNames } from '../api/names.ts';
import { type Query, useQuery } from '../api/use-query.ts';
import { hrefOf } from '../app/router.ts';
import { useMay } from '../app/session.tsx';
import { formatTime, shortId } from '../ui/format.ts';
import { Badge, Card, Facts, PageHead } from '../ui/parts.tsx';
import { Failure, Missing, Note } from '../ui/states.tsx';
import { Certificate } from './tokens/certificate.tsx';
import { Data } from './tokens/data.tsx';
import { Life } from './tokens/life.tsx';
import { WhoSees } from './tokens/who-sees.tsx';
import { Metadata } from './tokens.tsx';

export function Token({ id }: { readonly id: string }) {
  const mayRead = useMay('token:read');
  const token = useQuery<TokenAnswer>(mayRead ? `/tokens/${encodeURIComponent(id)}` : undefined);
  const isGone = token.error?.status === 404;
  return (
    <div className="stack">
      <PageHead title={`Token ${shortId(id)}`}>
        {isGone && <Badge tone="bad">not found or destroyed</Badge>}
        <a className="button" href={hrefOf(['tokens'])}>
          All tokens
        </a>
      </PageHead>
      <div className="two">
        <div className="stack">
          <Card title="Token">
            {mayRead ? <Content query={token} /> : <Missing permission="token:read" />}
          </Card>
          <WhoSees tokenId={id} container={token.data?.containers?.[0]} />
          <Certificate tokenId={id} />
        </div>
        <Life tokenId={id} />
      </div>
    </div>
  );
}

function Content({ query }: { readonly query: Query<TokenAnswer> }) {
  if (query.error?.status === 404) {
    return (
      <Note>
        There is no such token now, or your key may not see it. If it was destroyed, its log entries and its
        erasure certificate remain.
      </Note>
    );
  }
  if (query.error) return <Failure error={query.error} retry={query.reload} />;
  if (!query.data) return <p className="muted">Loading …</p>;
  return <TokenFacts token={query.data} />;
}

function TokenFacts({ token }: { readonly token: TokenAnswer }) {
  const { created_by: author } = token;
  const names = useNames(author ? [author] : []);
  return (
    <Facts
      facts={[
        ['Id', <code key="id">{token.id}</code>],
        ['Type', token.type],
        ['Data', <Data key="data" token={token} />],
        ['Container', <code key="container">{token.containers?.join(' ')}</code>],
        ['Metadata', token.metadata && <Metadata key="metadata" metadata={token.metadata} />],
        ['Mask', token.mask === undefined ? undefined : <code key="mask">{JSON.stringify(token.mask)}</code>],
        ['Fingerprint', token.fingerprint && <code key="fingerprint">{token.fingerprint}</code>],
        [
          'Created',
          `${formatTime(token.created_at)} UTC${author ? ` by ${names.get(author) ?? shortId(author)}` : ''}`,
        ],
        ['Changed', token.modified_at && `${formatTime(token.modified_at)} UTC`],
        ['Expires', token.expires_at && `${formatTime(token.expires_at)} UTC`],
      ]}
    />
  );
}
