import { Button, TextField } from './parts.tsx';

export interface Setting {
  readonly key: number;
  readonly name: string;
  readonly value: string;
}

let lastKey = 0;
export const settingsOf = (values: Readonly<Record<string, string>>): Setting[] =>
  Object.entries(values).map(([name, value]) => ({ key: ++lastKey, name, value }));
export const valuesOf = (settings: readonly Setting[]): Record<string, string> =>
  Object.fromEntries(settings.filter(({ name }) => name !== '').map(({ name, value }) => [name, value]));

interface SettingsProps {
  readonly label: string;
  readonly settings: readonly Setting[];
  readonly onChange: (settings: readonly Setting[]) => void;
}

/** Names with their values, for the configuration of a reactor and the settings of the tenant. */
export function Settings({ label, settings, onChange }: SettingsProps) {
  const change = (setting: Setting, changes: Partial<Setting>) =>
    onChange(settings.map((each) => (each === setting ? { ...each, ...changes } : each)));
  return (
    <fieldset className="stack-tight">
      <legend className="label">{label}</legend>
      {settings.map((setting, index) => (
        <div key={setting.key} className="filters" role="group" aria-label={`${label} ${index + 1}`}>
          <TextField label="Name" value={setting.name} onChange={(name) => change(setting, { name })} />
          <TextField label="Value" value={setting.value} onChange={(value) => change(setting, { value })} />
          <div>
            <Button
              look="plain"
              isSmall
              aria-label={`Remove ${setting.name || 'this line'}`}
              onClick={() => onChange(settings.filter((each) => each !== setting))}
            >
              Remove
            </Button>
          </div>
        </div>
      ))}
      <div>
        <Button isSmall onClick={() => onChange([...settings, { key: ++lastKey, name: '', value: '' }])}>
          Add
        </Button>
      </div>
    </fieldset>
  );
}
