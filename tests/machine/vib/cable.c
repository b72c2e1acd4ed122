// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /dev/vib0p1: the far end of a port's cable, as a stream of bytes in both directions.
 *
 * The stream is a sequence of messages. A message has 2 bytes, big-endian, with the
 * length of the rest; a byte 0x02 for "native packet"; and the packet from LRH to VCRC.
 * The datagrams of `verbatimd model` have the same form, so a program such as cat can
 * copy the bytes between this device and a virtio port.
 *
 * The link is up while a process has the device open for reading: this process is the far
 * end. A second process may open the device for writing.
 */

#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/unaligned.h>
#include "vib.h"

#define HEAD		3	/* length and kind */
#define KIND_PACKET	0x02
/* Limit of packets that wait for the far end. Further packets are lost, as on VL 15. */
#define MAX_WAITING	1024

struct message {
	struct list_head list;
	size_t length, taken;
	u8 bytes[HEAD + VIB_PACKET];
};

/* An open file. */
struct stream {
	struct vib_port *port;
	struct mutex lock;	/* one reader or writer at a time */
	struct message *reading;
	size_t have;
	u8 writing[HEAD + VIB_PACKET];
};

void vib_send(struct vib_port *port, const u8 *packet, size_t length)
{
	struct message *message;

	if (!port->cabled || vib_port_state(&port->info) == IB_PORT_DOWN ||
	    port->waiting >= MAX_WAITING)
		return;
	message = kmalloc(sizeof(*message), GFP_ATOMIC);
	if (!message)
		return;
	put_unaligned_be16(1 + length, message->bytes);
	message->bytes[2] = KIND_PACKET;
	memcpy(message->bytes + HEAD, packet, length);
	message->length = HEAD + length;
	message->taken = 0;
	list_add_tail(&message->list, &port->out);
	port->waiting++;
	wake_up(&port->wait);
}

static struct message *next_message(struct vib_port *port)
{
	struct message *message;
	unsigned long flags;

	spin_lock_irqsave(&port->lock, flags);
	message = list_first_entry_or_null(&port->out, struct message, list);
	if (message) {
		list_del(&message->list);
		port->waiting--;
	}
	spin_unlock_irqrestore(&port->lock, flags);
	return message;
}

static int cable_open(struct inode *inode, struct file *file)
{
	/* misc_open has set private_data to the miscdevice. */
	struct miscdevice *misc = file->private_data;
	struct vib_port *port = container_of(misc, struct vib_port, misc);
	bool is_far_end = file->f_mode & FMODE_READ;
	struct stream *stream;
	unsigned long flags;
	int error = 0;

	stream = kzalloc(sizeof(*stream), GFP_KERNEL);
	if (!stream)
		return -ENOMEM;
	stream->port = port;
	mutex_init(&stream->lock);
	if (is_far_end) {
		spin_lock_irqsave(&port->lock, flags);
		if (port->cabled) {
			error = -EBUSY;
		} else {
			port->cabled = true;
			vib_link(&port->info, true);
		}
		spin_unlock_irqrestore(&port->lock, flags);
	}
	if (error) {
		kfree(stream);
		return error;
	}
	file->private_data = stream;
	return nonseekable_open(inode, file);
}

static int cable_release(struct inode *inode, struct file *file)
{
	struct stream *stream = file->private_data;
	struct vib_port *port = stream->port;
	struct message *message;
	unsigned long flags;

	if (file->f_mode & FMODE_READ) {
		spin_lock_irqsave(&port->lock, flags);
		port->cabled = false;
		vib_link(&port->info, false);
		spin_unlock_irqrestore(&port->lock, flags);
		while ((message = next_message(port)))
			kfree(message);
		vib_event(port, IB_EVENT_PORT_ERR);
	}
	kfree(stream->reading);
	kfree(stream);
	return 0;
}

static ssize_t cable_read(struct file *file, char __user *to, size_t room, loff_t *at)
{
	struct stream *stream = file->private_data;
	struct message *message;
	ssize_t result;

	if (mutex_lock_interruptible(&stream->lock))
		return -ERESTARTSYS;
	while (!stream->reading) {
		stream->reading = next_message(stream->port);
		if (stream->reading)
			break;
		result = -EAGAIN;
		if (file->f_flags & O_NONBLOCK)
			goto out;
		result = wait_event_interruptible(stream->port->wait,
						  READ_ONCE(stream->port->waiting));
		if (result)
			goto out;
	}
	message = stream->reading;
	result = min(room, message->length - message->taken);
	if (copy_to_user(to, message->bytes + message->taken, result)) {
		result = -EFAULT;
		goto out;
	}
	message->taken += result;
	if (message->taken == message->length) {
		kfree(message);
		stream->reading = NULL;
	}
out:
	mutex_unlock(&stream->lock);
	return result;
}

/* Handles a complete message. Drops messages that are not packets. */
static void take(struct stream *stream)
{
	struct vib_port *port = stream->port;
	unsigned long flags;

	if (stream->writing[2] == KIND_PACKET) {
		spin_lock_irqsave(&port->lock, flags);
		vib_receive(port, stream->writing + HEAD, stream->have - HEAD);
		spin_unlock_irqrestore(&port->lock, flags);
	}
	stream->have = 0;
}

static ssize_t cable_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct stream *stream = file->private_data;
	size_t done = 0;
	ssize_t result;

	if (mutex_lock_interruptible(&stream->lock))
		return -ERESTARTSYS;
	while (done < length) {
		size_t wanted = HEAD, piece;

		if (stream->have >= HEAD)
			wanted = 2 + get_unaligned_be16(stream->writing);
		result = -EPROTO;
		/* The length is wrong, so the driver cannot find the next message. */
		if (wanted < HEAD || wanted > sizeof(stream->writing))
			goto out;
		piece = min(wanted - stream->have, length - done);
		result = -EFAULT;
		if (copy_from_user(stream->writing + stream->have, from + done, piece))
			goto out;
		stream->have += piece;
		done += piece;
		if (stream->have >= HEAD &&
		    stream->have == 2 + (size_t)get_unaligned_be16(stream->writing))
			take(stream);
	}
	result = done;
out:
	mutex_unlock(&stream->lock);
	return result;
}

static __poll_t cable_poll(struct file *file, poll_table *table)
{
	struct stream *stream = file->private_data;

	poll_wait(file, &stream->port->wait, table);
	return EPOLLOUT | EPOLLWRNORM |
	       (READ_ONCE(stream->port->waiting) ? EPOLLIN | EPOLLRDNORM : 0);
}

static const struct file_operations cable_operations = {
	.owner = THIS_MODULE,
	.open = cable_open,
	.release = cable_release,
	.read = cable_read,
	.write = cable_write,
	.poll = cable_poll,
	.llseek = no_llseek,
};

int vib_cable_add(struct vib_port *port)
{
	snprintf(port->name, sizeof(port->name), "%sp%u",
		 dev_name(&port->device->ib.dev), port->number);
	port->misc.minor = MISC_DYNAMIC_MINOR;
	port->misc.name = port->name;
	port->misc.fops = &cable_operations;
	return misc_register(&port->misc);
}

/* No file is open here, because an open file keeps the module loaded. */
void vib_cable_remove(struct vib_port *port)
{
	misc_deregister(&port->misc);
}
