import tseslint from 'typescript-eslint';

/** The names of read models come from their definition (ADR 35), so that a renamed column does not compile. */
const readModelNames = ['TemplateElement[value.raw=', 'Literal[value='].map((node) => ({
  selector: `${node}/\\brm_\\w+\\.\\w/]`,
  message: 'take the names of tables and columns from `aliased` of contracts',
}));

/** A cast that turns the compiler off. Where no type can say it, disable the rule for the line and say why. */
const casts = [
  {
    selector: 'TSAsExpression > TSAsExpression.expression > TSUnknownKeyword.typeAnnotation',
    message: 'no cast by way of unknown: give the value its type where it is made',
  },
  {
    selector: 'TSAsExpression > TSNeverKeyword.typeAnnotation',
    message: 'no cast to never: give the value its type where it is made',
  },
  {
    selector: "TSAsExpression > TSTypeReference.typeAnnotation[typeName.name='SealedValue']",
    message: 'only `seal` of libs/crypto makes a sealed value',
  },
];

/** Of the key ring, only the calls that wipe their key. */
const keys = [
  {
    selector: "MemberExpression > Identifier.property[name='createDataKey']",
    message: 'seal by `sealNew` or `prepareSeal`, which wipe the key',
  },
];

export default tseslint.config(
  {
    ignores: [
      '**/node_modules/**',
      '.cache/**',
      '.vault/**',
      '**/*.cjs',
      '**/*.mjs',
      '**/*.js',
      '!eslint.config.js',
    ],
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        project: ['./tsconfig.json', './console/tsconfig.json'],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      'max-lines': ['error', { max: 250, skipBlankLines: true, skipComments: true }],
      'max-params': ['error', { max: 4 }],
      'max-lines-per-function': ['error', { max: 55, skipBlankLines: true, skipComments: true }],
      complexity: ['error', 14],
      eqeqeq: 'error',
      'no-restricted-syntax': ['error', ...readModelNames, ...casts, ...keys],
    },
  },
  {
    files: ['libs/crypto/src/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...readModelNames, ...casts] },
  },
  {
    files: [
      '**/test/**/*.ts',
      '**/bench/**/*.ts',
      '**/*.test.ts',
      '**/contract-suite.ts',
      '**/contract-suite/**',
    ],
    rules: {
      'max-lines-per-function': 'off',
      'max-lines': ['error', 500],
      'max-params': 'off',
      'no-restricted-syntax': 'off',
    },
  },
  {
    // These functions have the parameters of Node's API, which code of tenants calls.
    files: ['ciphers', 'derivation', 'subtle'].map(
      (name) => `reactor-runner/src/sandbox/guest/modules/crypto/${name}.ts`,
    ),
    rules: { 'max-params': 'off' },
  },
);
