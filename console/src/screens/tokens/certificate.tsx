import { useState } from 'react';
import type { ErasureCertificate } from '@token-vault/contracts';
import { call } from '../../api/client.ts';
import { useAction } from '../../api/use-query.ts';
import { useMay } from '../../app/session.tsx';
import { Button, Card, TextAreaField, TextField } from '../../ui/parts.tsx';
import { Failure, Missing, Note } from '../../ui/states.tsx';
import { verifyCertificate, type Verified } from './verify-certificate.ts';

interface GetCertificateProps {
  readonly tokenId: string;
  /** Undefined: the certificate is being read. */
  readonly onText: (text: string | undefined) => void;
}

function GetCertificate({ tokenId, onText }: GetCertificateProps) {
  const get = useAction(async () => {
    const path = `/tokens/${encodeURIComponent(tokenId)}/erasure-certificate`;
    onText(undefined);
    onText(JSON.stringify(await call<ErasureCertificate>('GET', path), null, 2));
  });
  return (
    <>
      <div className="row">
        <Button disabled={get.isRunning} onClick={() => void get.run()}>
          Get the certificate
        </Button>
        <span className="muted small">There is one when the token was destroyed, with its keys.</span>
      </div>
      {get.error && <Failure error={get.error} />}
    </>
  );
}

/** The certificate that the token was erased, verified by this browser. */
export function Certificate({ tokenId }: { readonly tokenId: string }) {
  const mayRead = useMay('log:read');
  const [text, setText] = useState('');
  const [publicKey, setPublicKey] = useState('');
  const [verified, setVerified] = useState<Verified>();
  const verify = async () => setVerified(await verifyCertificate(text, publicKey, tokenId));
  const show = (read: string | undefined) => {
    if (read === undefined) setVerified(undefined);
    else setText(read);
  };
  return (
    <Card title="Erasure certificate">
      <div className="form">
        {mayRead ? <GetCertificate tokenId={tokenId} onText={show} /> : <Missing permission="log:read" />}
        <TextAreaField
          label="Certificate (JSON)"
          hint="This browser checks its signature; the vault is not asked."
          value={text}
          onChange={setText}
        />
        <TextField
          label="Public key of the tenant"
          hint="From a source that you trust, and not from the certificate: vault audit public-key"
          value={publicKey}
          onChange={setPublicKey}
        />
        {!isSecureContext && (
          <Note tone="warn">Browsers verify signatures only on pages that come over https.</Note>
        )}
        <div className="row">
          <Button
            disabled={!isSecureContext || text.trim() === '' || publicKey.trim() === ''}
            onClick={() => void verify()}
          >
            Verify
          </Button>
        </div>
        {verified && <Note tone={verified.isValid ? 'ok' : 'bad'}>{verified.says}</Note>}
      </div>
    </Card>
  );
}
