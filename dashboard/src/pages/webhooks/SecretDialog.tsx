import { Button, CodeBlock, Dialog, Note, Snippets } from "@/ui";

/** The secret that signs deliveries. It is shown once. */
export function SecretDialog({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog
      open
      sticky
      onClose={onClose}
      title="The secret of the webhook"
      footer={
        <Button variant="primary" onClick={onClose}>
          I have saved it
        </Button>
      }
    >
      <div className="flex flex-col gap-3">
        <Note tone="warn">
          It is shown only now. With it the receiver checks that a request is from this server.
        </Note>
        <CodeBlock code={secret} />
        <Snippets
          label="Check a delivery"
          snippets={{
            Python:
              "from pandastack import verify_webhook\n\nevent = verify_webhook(secret, request.headers, request.body)",
            TypeScript:
              'import { verifyWebhook } from "@pandastack/sdk";\n\nconst event = await verifyWebhook(secret, request.headers, await request.text());',
          }}
        />
      </div>
    </Dialog>
  );
}
