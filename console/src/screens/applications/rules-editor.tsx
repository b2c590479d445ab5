import { Button, Check, SelectField, TextField } from '../../ui/parts.tsx';
import { type DraftRule, newRule } from './rules.ts';

interface RulesEditorProps {
  readonly rules: readonly DraftRule[];
  /** The permissions that an application of this type may hold in a rule. */
  readonly permissions: readonly string[];
  readonly onChange: (rules: readonly DraftRule[]) => void;
}

const transforms = ['redact', 'mask', 'reveal'] as const;

export function RulesEditor({ rules, permissions, onChange }: RulesEditorProps) {
  const nextPriority = Math.max(0, ...rules.map(({ priority }) => Number(priority) || 0)) + 1;
  return (
    <fieldset className="stack-tight">
      <legend className="label">
        Access rules: the first one by priority that covers a token and grants the permission decides
      </legend>
      {rules.map((rule, index) => (
        <Rule
          key={rule.key}
          {...{ rule, permissions }}
          name={`Rule ${index + 1}`}
          onChange={(changes) =>
            onChange(rules.map((each) => (each === rule ? { ...each, ...changes } : each)))
          }
          onRemove={() => onChange(rules.filter((each) => each !== rule))}
        />
      ))}
      <div>
        <Button isSmall onClick={() => onChange([...rules, newRule(nextPriority)])}>
          Add rule
        </Button>
      </div>
    </fieldset>
  );
}

interface RuleProps {
  readonly rule: DraftRule;
  readonly name: string;
  readonly permissions: readonly string[];
  readonly onChange: (changes: Partial<DraftRule>) => void;
  readonly onRemove: () => void;
}

function Rule({ rule, name, permissions, onChange, onRemove }: RuleProps) {
  return (
    <div className="rule" role="group" aria-label={name}>
      <div className="filters">
        <TextField
          label="Priority"
          inputMode="numeric"
          value={rule.priority}
          onChange={(priority) => onChange({ priority })}
        />
        <TextField
          label="Container"
          value={rule.container}
          onChange={(container) => onChange({ container })}
        />
        <SelectField
          label="Shows data as"
          value={rule.transform}
          choices={transforms}
          onChange={(value) => onChange({ transform: transforms.find((each) => each === value) ?? 'redact' })}
        />
        <TextField
          label="Description"
          value={rule.description}
          onChange={(description) => onChange({ description })}
        />
      </div>
      <Permissions
        label="Permissions of the rule"
        all={permissions}
        chosen={rule.permissions}
        onChange={(chosen) => onChange({ permissions: chosen })}
      />
      <Conditions rule={rule} onChange={onChange} onRemove={onRemove} />
    </div>
  );
}

type ConditionsProps = Pick<RuleProps, 'rule' | 'onChange' | 'onRemove'>;

function Conditions({ rule, onChange, onRemove }: ConditionsProps) {
  return (
    <div className="checks">
      <Check
        label="Data only with a reason"
        checked={rule.isReasonRequired}
        onChange={(isReasonRequired) => onChange({ isReasonRequired })}
      />
      <Check
        label="Break glass: reveals are told to the security webhook"
        checked={rule.isBreakGlass}
        onChange={(isBreakGlass) => onChange({ isBreakGlass })}
      />
      <Check
        label="Data may be searched"
        checked={rule.isDataSearchable}
        onChange={(isDataSearchable) => onChange({ isDataSearchable })}
      />
      <Button isSmall look="plain" onClick={onRemove}>
        Remove rule
      </Button>
    </div>
  );
}

interface PermissionsProps {
  readonly label: string;
  readonly all: readonly string[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function Permissions({ label, all, chosen, onChange }: PermissionsProps) {
  return (
    <fieldset className="stack-tight">
      <legend className="label">{label}</legend>
      <div className="checks">
        {all.map((name) => (
          <Check
            key={name}
            label={name}
            checked={chosen.includes(name)}
            onChange={(isChosen) =>
              onChange(isChosen ? [...chosen, name] : chosen.filter((permission) => permission !== name))
            }
          />
        ))}
      </div>
    </fieldset>
  );
}
